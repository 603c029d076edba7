package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// module is the import path of the house.
const module = "github.com/node-drainer/node-drainer"

// rows gives each room its row. An arrow points to a lower row, so rooms of one row never import each
// other.
func rows() map[string]int {
	return map[string]int{
		"internal/batch": 0, // Tools that know nothing of the product.
		"internal/text":  0,
		"internal/retry": 0,
		"internal/arch":  0,
		"internal/cloud": 0,

		"pkg/event":   1, // Pure: what is in the outside world, and what is to be done about it.
		"pkg/refresh": 1,

		"pkg/queue":       2,
		"pkg/autoscaling": 2,
		"pkg/ec2":         2,
		"pkg/node":        2,
		"pkg/drain":       2,
		"pkg/launch":      2,
		"pkg/lead":        2,
		"pkg/cluster":     2,

		"internal/observe": 3,
		"internal/report":  3,

		"internal/agent":   4,
		"internal/rollout": 4,
		"internal/config":  4, // Above row 2, as it gathers the Config of each room there.

		"internal/app": 5,
		"internal/cli": 5,

		"cmd/agent":   6,
		"cmd/trigger": 6,
	}
}

// guard says that a library (and all below it) is for some rooms alone. The longest guard that fits
// decides.
type guard struct {
	library string
	rooms   []string
}

func guards() []guard {
	const aws = "github.com/aws/aws-sdk-go-v2"
	cmds := []string{"internal/app", "internal/cli"}
	and := func(rooms ...string) []string { return append(rooms, cmds...) }
	kubernetes := and("pkg/node", "pkg/drain", "pkg/launch", "pkg/lead", "pkg/cluster", "internal/retry")
	return []guard{
		{"github.com/aws", and("pkg/queue", "pkg/autoscaling", "pkg/ec2", "internal/cloud")},
		{aws + "/service/sqs", and("pkg/queue")},
		{aws + "/service/autoscaling", and("pkg/autoscaling")},
		{aws + "/service/ec2", and("pkg/ec2")},
		{"k8s.io", kubernetes},
		{"sigs.k8s.io", kubernetes},
		{"github.com/rs/zerolog", and("internal/observe")},
		{"github.com/prometheus", and("internal/observe")},
	}
}

// standardOnly are the rooms that import nothing but the standard library.
func standardOnly() []string {
	return []string{"pkg/event", "pkg/refresh", "internal/batch", "internal/text"}
}

// source is one Go file of the module.
type source struct {
	file    string // slash-separated, from the module's root
	imports []string
	lines   int
}

func (s source) test() bool { return strings.HasSuffix(s.file, "_test.go") }

// roomOf returns the room that a path lies in: its first two elements under cmd, internal and pkg; "test"
// for all that stands around the product; "deploy" for what AWS is set up with; else "".
func roomOf(file string) string {
	parts := strings.Split(file, "/")
	switch {
	case parts[0] == "test" || parts[0] == "deploy":
		return parts[0]
	case len(parts) >= 2 && (parts[0] == "cmd" || parts[0] == "internal" || parts[0] == "pkg"):
		return path.Join(parts[:2]...)
	}
	return ""
}

// judge returns what in the sources breaks the rules. Test files may import what they like: they run the
// world around the product.
func judge(sources []source) []string {
	var faults []string
	for _, s := range sources {
		faults = append(faults, oversized(s)...)
		if s.test() {
			continue
		}
		switch room := roomOf(path.Dir(s.file)); room {
		case "test":
			faults = append(faults, worldFaults(s)...)
		case "deploy":
			faults = append(faults, deployFaults(s)...)
		case "":
		default:
			faults = append(faults, productFaults(room, s)...)
		}
	}
	return faults
}

// oversized holds the two limits on length; tests may be as long as their tables.
func oversized(s source) []string {
	limit := 400
	if strings.HasPrefix(s.file, "cmd/") && path.Base(s.file) == "main.go" {
		limit = 60
	}
	if s.test() || s.lines <= limit {
		return nil
	}
	return []string{fmt.Sprintf("%s has %d lines, more than %d", s.file, s.lines, limit)}
}

// worldFaults keeps awsim free of the SDK, so that it checks what the SDK sends.
func worldFaults(s source) []string {
	var faults []string
	for _, imported := range s.imports {
		if strings.HasPrefix(s.file, "test/awsim/") && within(imported, "github.com/aws") {
			faults = append(faults, fmt.Sprintf("%s imports %s: awsim is written without the SDK", s.file, imported))
		}
	}
	return faults
}

// deployFaults keeps the documents of deploy free of any program: they are read by all sorts.
func deployFaults(s source) []string {
	var faults []string
	for _, imported := range s.imports {
		if !standard(imported) && !within(imported, module+"/deploy") {
			faults = append(faults, fmt.Sprintf("%s imports %s: deploy has the standard library only", s.file, imported))
		}
	}
	return faults
}

func productFaults(room string, s source) []string {
	if _, known := rows()[room]; !known {
		return []string{fmt.Sprintf("%s: the room %s is not in the table", s.file, room)}
	}
	var faults []string
	for _, imported := range s.imports {
		if why := arrowFault(room, imported); why != "" {
			faults = append(faults, fmt.Sprintf("%s imports %s: %s", s.file, imported, why))
		}
	}
	return faults
}

// arrowFault returns why a room may not import a package, "" if it may.
func arrowFault(room, imported string) string {
	if inside, house := strings.CutPrefix(imported, module+"/"); house {
		return houseFault(room, roomOf(inside))
	}
	if !standard(imported) && slices.Contains(standardOnly(), room) {
		return room + " has the standard library only"
	}
	if g := guardOf(imported); g.library != "" && !slices.Contains(g.rooms, room) {
		return g.library + " belongs to " + strings.Join(g.rooms, ", ")
	}
	return ""
}

func houseFault(room, target string) string {
	switch {
	case target == "test":
		return "the product does not know of its tests"
	case target == "deploy":
		return "the product does not know how it is installed"
	case target != room && rows()[target] >= rows()[room]:
		return "arrows point down, to a lower row"
	}
	return ""
}

func guardOf(imported string) guard {
	var best guard
	for _, g := range guards() {
		if within(imported, g.library) && len(g.library) > len(best.library) {
			best = g
		}
	}
	return best
}

// standard tells a package of the standard library by its first element, which is no domain.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func within(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}
