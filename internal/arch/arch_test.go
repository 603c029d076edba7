package arch

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestHouse holds the rules against the files as they are, whatever their build tags.
func TestHouse(t *testing.T) {
	sources := readModule(t, moduleRoot(t))
	for _, fault := range judge(sources) {
		t.Error(fault)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s.file == "pkg/event/event.go" }) {
		t.Error("the files of the module were not found")
	}
}

// TestRules shows that the table catches what it is there to catch, and lets pass what it should.
func TestRules(t *testing.T) {
	const sdk = "github.com/aws/aws-sdk-go-v2/service/"
	tests := []struct {
		name, file, imported string
		want                 string // part of the one fault; "" for none
	}{
		{"down one row", "pkg/queue/a.go", module + "/pkg/event", ""},
		{"down all rows", "cmd/agent/main.go", module + "/pkg/event", ""},
		{"within a room", "pkg/drain/evict/a.go", module + "/pkg/drain/decide", ""},
		{"up", "pkg/event/a.go", module + "/pkg/queue", "arrows point down"},
		{"up to main", "internal/agent/a.go", module + "/cmd/agent", "arrows point down"},
		{"across a row", "pkg/drain/a.go", module + "/pkg/node", "arrows point down"},
		{"across a row, in a room below the room", "pkg/drain/x/y/a.go", module + "/pkg/node/z", "arrows point down"},
		{"agent and config do not know each other", "internal/agent/a.go", module + "/internal/config", "arrows point down"},
		{"config gathers the knobs of row 2", "internal/config/a.go", module + "/pkg/drain", ""},
		{"product imports the world", "pkg/queue/a.go", module + "/test/awsim", "does not know of its tests"},
		{"main imports the world", "cmd/agent/main.go", module + "/test/cluster", "does not know of its tests"},
		{"a test runs the world", "cmd/agent/agent_test.go", module + "/test/awsim", ""},
		{"product imports how it is installed", "internal/agent/a.go", module + "/deploy", "how it is installed"},
		{"a test reads how it is installed", "test/e2e/a_test.go", module + "/deploy", ""},
		{"deploy imports the product", "deploy/a.go", module + "/pkg/event", "standard library only"},
		{"deploy imports a library", "deploy/copies/main.go", "sigs.k8s.io/yaml", "standard library only"},
		{"deploy imports itself", "deploy/copies/main.go", module + "/deploy", ""},
		{"room that is not in the table", "internal/util/a.go", "fmt", "not in the table"},
		{"pkg/event and a library", "pkg/event/a.go", "golang.org/x/sync/errgroup", "standard library only"},
		{"pkg/event and the standard library", "pkg/event/a.go", "encoding/json", ""},
		{"SQS in its room", "pkg/queue/a.go", sdk + "sqs/types", ""},
		{"SQS in a room of another SDK", "pkg/autoscaling/a.go", sdk + "sqs", "belongs to pkg/queue"},
		{"SQS client made in app", "internal/app/a.go", sdk + "sqs", ""},
		{"SQS client made in main", "cmd/agent/main.go", sdk + "sqs", "belongs to"},
		{"Auto Scaling in the queue", "pkg/queue/a.go", sdk + "autoscaling", "belongs to pkg/autoscaling"},
		{"Auto Scaling in refresh", "pkg/refresh/a.go", sdk + "autoscaling/types", "standard library only"},
		{"refresh in Auto Scaling", "pkg/autoscaling/a.go", module + "/pkg/refresh", ""},
		{"EC2 in Auto Scaling", "pkg/autoscaling/a.go", sdk + "ec2", "belongs to pkg/ec2"},
		{"EC2's metadata is not EC2", "internal/app/a.go", "github.com/aws/aws-sdk-go-v2/feature/ec2/imds", ""},
		{"any SDK in agent", "internal/agent/a.go", "github.com/aws/smithy-go", "belongs to"},
		{"Kubernetes in agent", "internal/agent/a.go", "k8s.io/api/core/v1", "belongs to pkg/node"},
		{"Kubernetes in lead", "pkg/lead/a.go", "k8s.io/client-go/tools/leaderelection", ""},
		{"Kubernetes in node", "pkg/node/a.go", "k8s.io/api/core/v1", ""},
		{"Kubernetes in the story of a rollout", "internal/rollout/a.go", "k8s.io/api/core/v1", "belongs to pkg/node"},
		{"Kubernetes in launch", "pkg/launch/a.go", "k8s.io/component-helpers/scheduling/corev1", ""},
		{"AWS in drain", "pkg/drain/a.go", "github.com/aws/aws-sdk-go-v2/aws", "belongs to"},
		{"log in observe", "internal/observe/a.go", "github.com/rs/zerolog", ""},
		{"log in agent", "internal/agent/a.go", "github.com/rs/zerolog/log", "belongs to internal/observe"},
		{"metrics in drain", "pkg/drain/a.go", "github.com/prometheus/client_golang/prometheus", "belongs to internal/observe"},
		{"SDK in awsim", "test/awsim/a.go", sdk + "sqs", "without the SDK"},
		{"SDK in awsim's tests", "test/awsim/a_test.go", sdk + "sqs", ""},
		{"Kubernetes in the cluster", "test/cluster/a.go", "k8s.io/client-go/kubernetes", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expectFault(t, judge([]source{{file: tt.file, imports: []string{tt.imported}}}), tt.want)
		})
	}
}

func TestLengths(t *testing.T) {
	tests := []struct {
		name, file string
		lines      int
		want       string
	}{
		{"file at the limit", "pkg/drain/a.go", 400, ""},
		{"file above it", "pkg/drain/a.go", 401, "has 401 lines"},
		{"file of the world above it", "test/awsim/a.go", 401, "has 401 lines"},
		{"test above it", "pkg/drain/a_test.go", 2000, ""},
		{"main at the limit", "cmd/agent/main.go", 60, ""},
		{"main above it", "cmd/agent/main.go", 61, "has 61 lines"},
		{"file beside main", "cmd/agent/clients.go", 61, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expectFault(t, judge([]source{{file: tt.file, lines: tt.lines}}), tt.want)
		})
	}
}

func expectFault(t *testing.T, faults []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(faults) > 0:
		t.Errorf("got %q, want no fault", faults)
	case want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)):
		t.Errorf("got %q, want one fault with %q", faults, want)
	}
}

// moduleRoot looks upward from the test's own folder.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !strings.Contains(string(mod), module) {
		t.Fatalf("%s is not the root of %s: %v", root, module, err)
	}
	return root
}

// readModule reads the imports and the length of every Go file below root, save for testdata and hidden
// folders.
func readModule(t *testing.T, root string) []source {
	t.Helper()
	var sources []source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != root && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) == ".go" {
			sources = append(sources, readSource(t, root, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func readSource(t *testing.T, root, file string) source {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(root, file)
	if err != nil {
		t.Fatal(err)
	}
	s := source{file: filepath.ToSlash(relative), lines: bytes.Count(text, []byte("\n"))}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		s.imports = append(s.imports, imported)
	}
	return s
}
