package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// module is the import path of the module.
const module = "github.com/node-drainer/node-drainer"

// layers returns the layer of each package. A package may only import packages of lower layers.
func layers() map[string]int {
	return map[string]int{
		"internal/batch": 0, // Tools that do not know the product.
		"internal/text":  0,
		"internal/retry": 0,
		"internal/arch":  0,
		"internal/cloud": 0,
		"internal/gate":  0,
		"internal/kube":  0,

		"internal/event":   1, // Pure: parsing and policy.
		"pkg/refresh":      1,
		"pkg/handover":     1,
		"internal/migrate": 1,

		"pkg/queue":                 2, // One outside system each.
		"internal/autoscaling":      2,
		"internal/ec2":              2,
		"internal/cloudwatch":       2,
		"internal/eventbridge":      2,
		"internal/nodegroup":        2,
		"internal/node":             2,
		"pkg/drain":                 2,
		"internal/launch":           2,
		"internal/lead":             2,
		"internal/autoscaler":       2,
		"internal/access":           2,
		"internal/handover/restart": 2,
		"internal/handover/webhook": 2,
		"internal/notify":           2,
		"internal/history":          2,

		"internal/handover/workload": 2, // What the program that has pods hand over knows of them, and what it consists of.
		"internal/handover/redis":    3,
		"internal/handover/surge":    3,
		"internal/handover/server":   3,
		"internal/handover/program":  4,

		"internal/cluster": 3, // It reads what internal/node writes.
		"internal/observe": 3,

		"internal/report": 4,
		"internal/agent":  4,
		"internal/config": 4, // It contains the Config of each package of layer 2.

		"internal/check":        5,
		"internal/rollout/plan": 5, // It has nothing that writes.
		"internal/rollout/loop": 6,
		"internal/rollout/hold": 7,
		"internal/rollout/mode": 8,
		"internal/rollout":      9,

		"internal/app": 10,
		"internal/cli": 10,

		"cmd/agent":    11,
		"cmd/trigger":  11,
		"cmd/handover": 11,
	}
}

// guard restricts a library, and all packages below it, to some packages of the product.
type guard struct {
	library  string
	packages []string
}

func guards() []guard {
	const aws = "github.com/aws/aws-sdk-go-v2"
	and := func(packages ...string) []string { return append(packages, "internal/app", "internal/cli") }
	kubernetes := and("internal/node", "pkg/drain", "internal/handover/redis", "internal/handover/restart",
		"internal/handover/surge", "internal/handover/webhook", "internal/handover/workload", "internal/handover/program",
		"internal/history", "internal/launch", "internal/lead", "internal/autoscaler", "internal/access", "internal/cluster", "internal/retry",
		"internal/kube")
	return []guard{
		{"github.com/aws", and("pkg/queue", "internal/autoscaling", "internal/ec2", "internal/cloudwatch",
			"internal/eventbridge", "internal/nodegroup", "internal/cloud")},
		{aws + "/service/sqs", and("pkg/queue")},
		{aws + "/service/autoscaling", and("internal/autoscaling")},
		{aws + "/service/ec2", and("internal/ec2")},
		{aws + "/service/cloudwatch", and("internal/cloudwatch")},
		{aws + "/service/eventbridge", and("internal/eventbridge")},
		{aws + "/service/eks", and("internal/nodegroup")},
		{aws + "/service/ssm", and("internal/nodegroup")},
		{"k8s.io", kubernetes},
		{"sigs.k8s.io", kubernetes},
		{"github.com/rs/zerolog", and("internal/observe", "internal/handover/program")},
		{"github.com/prometheus", and("internal/observe")},
	}
}

// standardOnly returns the packages that import no library but the standard one.
func standardOnly() []string {
	return []string{"internal/event", "pkg/refresh", "internal/batch", "internal/text"}
}

// outside returns the folders with Go files that are not of the product.
func outside() []string { return []string{"test", "deploy", "examples"} }

// packageOf returns the package that a path is in: the longest part of it that has a layer, or its first two elements,
// under cmd, internal and pkg; test, deploy or examples for everything below these; otherwise "".
func packageOf(file string) string {
	parts := strings.Split(file, "/")
	switch {
	case slices.Contains(outside(), parts[0]):
		return parts[0]
	case len(parts) < 2 || parts[0] != "cmd" && parts[0] != "internal" && parts[0] != "pkg":
		return ""
	}
	for n := len(parts); n > 2; n-- {
		if _, known := layers()[path.Join(parts[:n]...)]; known {
			return path.Join(parts[:n]...)
		}
	}
	return path.Join(parts[:2]...)
}

// importProblems returns the imports that are not allowed. Tests may import everything.
func importProblems(s source) (problems []string) {
	from := packageOf(path.Dir(s.file))
	if s.isTest() || from == "" {
		return nil
	}
	if _, known := layers()[from]; !known && !slices.Contains(outside(), from) {
		return []string{fmt.Sprintf("%s: the package %s has no layer", s.file, from)}
	}
	for _, imported := range s.imports {
		if problem := importProblem(s.file, from, imported); problem != "" {
			problems = append(problems, fmt.Sprintf("%s imports %s: %s", s.file, imported, problem))
		}
	}
	return problems
}

// importProblem returns why the file of a package may not import another, or "".
func importProblem(file, from, imported string) string {
	inside, isInside := strings.CutPrefix(imported, module+"/")
	switch {
	case from == "test":
		if strings.HasPrefix(file, "test/awsim/") && isBelow(imported, "github.com/aws") {
			return "awsim does not use the SDK, because it checks what the SDK sends"
		}
		return ""
	case slices.Contains(outside(), from):
		if !isStandard(imported) && !isBelow(imported, module+"/"+from) {
			return from + " imports the standard library only"
		}
		return ""
	case isInside:
		return layerProblem(from, packageOf(inside))
	case !isStandard(imported) && slices.Contains(standardOnly(), from):
		return from + " imports the standard library only"
	}
	if g := guardOf(imported); g.library != "" && !slices.Contains(g.packages, from) {
		return g.library + " belongs to " + strings.Join(g.packages, ", ")
	}
	return ""
}

func layerProblem(from, to string) string {
	switch {
	case slices.Contains(outside(), to):
		return "the product does not import " + to
	case to != from && layers()[to] >= layers()[from]:
		return "only lower layers may be imported"
	}
	return ""
}

// guardOf returns the guard with the longest matching library.
func guardOf(imported string) guard {
	var best guard
	for _, g := range guards() {
		if isBelow(imported, g.library) && len(g.library) > len(best.library) {
			best = g
		}
	}
	return best
}

// isStandard reports whether a package is of the standard library: its first element is not a domain.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func isBelow(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}

func TestImportProblems(t *testing.T) {
	const sdk = "github.com/aws/aws-sdk-go-v2/service/"
	for _, tt := range []struct {
		name, file, imported string
		want                 string // part of the only problem; "" for none
	}{
		{"one layer down", "pkg/queue/a.go", module + "/internal/event", ""},
		{"within a nested package", "internal/handover/redis/a.go", module + "/internal/handover/redis/resp", ""},
		{"the program and what it consists of", "internal/handover/program/a.go", module + "/internal/handover/redis", ""},
		{"hand-overs and their program", "internal/handover/redis/a.go", module + "/internal/handover/server", "only lower layers"},
		{"the server and Kubernetes", "internal/handover/server/a.go", "k8s.io/api/core/v1", "belongs to internal/node"},
		{"within a package", "pkg/drain/evict/a.go", module + "/pkg/drain/decide", ""},
		{"up", "internal/event/a.go", module + "/pkg/queue", "only lower layers"},
		{"same layer, nested packages", "pkg/drain/x/y/a.go", module + "/internal/node/z", "only lower layers"},
		{"product and test", "pkg/queue/a.go", module + "/test/awsim", "does not import test"},
		{"tests of main and test", "cmd/agent/agent_test.go", module + "/test/awsim", ""},
		{"product and deploy", "internal/agent/a.go", module + "/deploy", "does not import deploy"},
		{"deploy and a library", "deploy/copies/main.go", "sigs.k8s.io/yaml", "standard library only"},
		{"within deploy", "deploy/copies/main.go", module + "/deploy", ""},
		{"an example and the product", "examples/etcd/main.go", module + "/pkg/handover", "standard library only"},
		{"an example and the standard library", "examples/etcd/main.go", "net/http", ""},
		{"product and examples", "internal/agent/a.go", module + "/examples/etcd", "does not import examples"},
		{"package without a layer", "internal/util/a.go", "fmt", "has no layer"},
		{"event and a library", "internal/event/a.go", "golang.org/x/sync/errgroup", "standard library only"},
		{"event and the standard library", "internal/event/a.go", "encoding/json", ""},
		{"autoscaling and SQS", "internal/autoscaling/a.go", sdk + "sqs", "belongs to pkg/queue"},
		{"app and SQS", "internal/app/clients.go", sdk + "sqs", ""},
		{"agent and any SDK", "internal/agent/a.go", "github.com/aws/smithy-go", "belongs to"},
		{"rollout and Kubernetes", "internal/rollout/a.go", "k8s.io/api/core/v1", "belongs to internal/node"},
		{"agent and zerolog", "internal/agent/a.go", "github.com/rs/zerolog/log", "belongs to internal/observe"},
		{"drain and Prometheus", "pkg/drain/a.go", "github.com/prometheus/client_golang/prometheus", "internal/observe"},
		{"awsim and the SDK", "test/awsim/a.go", sdk + "sqs", "does not use the SDK"},
		{"test and Kubernetes", "test/cluster/a.go", "k8s.io/client-go/kubernetes", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expectProblem(t, importProblems(source{file: tt.file, imports: []string{tt.imported}}), tt.want)
		})
	}
}
