package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

func TestVariables(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range config.Variables() {
		if seen[v.Name] {
			t.Errorf("%s is listed twice", v.Name)
		}
		seen[v.Name] = true
		if v.Help == "" || !strings.HasSuffix(v.Help, ".") {
			t.Errorf("%s: the help is not a sentence: %q", v.Name, v.Help)
		}
		switch {
		case v.Required && v.Default != "":
			t.Errorf("%s is required, and has the default %q", v.Name, v.Default)
		case !v.Required && v.Default == "" && !strings.Contains(v.Help, "Empty"):
			t.Errorf("%s has no default, and does not explain Empty: %q", v.Name, v.Help)
		}
		if strings.ContainsAny(v.Help+v.Default, "|\n`") {
			t.Errorf("%s: the help would break a table: %q", v.Name, v.Help)
		}
	}
}

// TestValues: the tags list the values that the packages know.
func TestValues(t *testing.T) {
	t.Parallel()
	brief := []event.Action{event.Drain, event.Cordon, event.Ignore} // the instance is terminated within minutes
	all := []event.Action{event.Drain, event.Cordon, event.Replace, event.Ignore}
	want := map[string]string{
		"DRAIN_AT_DEADLINE":                       fmt.Sprint([]string{drain.Delete, drain.Leave}),
		"DRAIN_BARE_PODS":                         fmt.Sprint([]string{drain.Evict, drain.Wait}),
		"DRAIN_EMPTYDIR_PODS":                     fmt.Sprint([]string{drain.Evict, drain.Wait}),
		"DRAIN_SINGLE_REPLICAS":                   fmt.Sprint([]string{drain.Evict, handover.Restart}),
		"EVENT_ALARM":                             fmt.Sprint(all),
		"EVENT_CAPACITY_BLOCK_EXPIRATION":         fmt.Sprint(brief),
		"EVENT_CAPACITY_RESERVATION_INTERRUPTION": fmt.Sprint(brief),
		"EVENT_REBALANCE_RECOMMENDATION":          fmt.Sprint(all),
		"EVENT_SCHEDULED_CHANGE":                  fmt.Sprint(all),
		"EVENT_SPOT_INTERRUPTION":                 fmt.Sprint(brief),
		"EVENT_STATE_CHANGE":                      fmt.Sprint(brief),
		"LAUNCH_AT_TIMEOUT":                       fmt.Sprint([]string{launch.Abandon, launch.Continue}),
		"LOG_FORMAT":                              "[json console]",
		"LOG_LEVEL":                               "[debug info warn error]",
		"NODE_EXCLUDE_FROM_LOAD_BALANCERS":        fmt.Sprint([]string{node.Early, node.Late, node.Off}),
		"NODE_TAINT_EFFECT": fmt.Sprint([]corev1.TaintEffect{
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
		}),
	}
	got := map[string]string{}
	for _, v := range config.Variables() {
		for _, value := range v.Values {
			got[v.Name] = fmt.Sprint(v.Values)
			if _, err := config.ReadAgent(environ(v.Name + "=" + value)); err != nil {
				t.Errorf("%s=%s: %v", v.Name, value, err)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the values (-want +got):\n%s", diff)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := config.WriteHelp(&b); err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(b.String()) {
		if len(line) > 101 { // with its end
			t.Errorf("longer than a terminal: %s", line)
		}
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "  "), " ("); ok && strings.HasPrefix(line, "  ") && line[2] != ' ' {
			names = append(names, name)
		}
	}
	var want []string
	words := strings.Join(strings.Fields(b.String()), " ")
	for _, v := range config.Variables() {
		want = append(want, v.Name)
		if !strings.Contains(words, v.Help) {
			t.Errorf("the help of %s was broken within a word", v.Name)
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the variables in the help (-want +got):\n%s", diff)
	}
	for _, what := range []string{"QUEUE_URL (required)", "DRAIN_TIMEOUT (default 1h)", "--version", "AWS_REGION", "KUBECONFIG"} {
		if !strings.Contains(b.String(), what) {
			t.Errorf("the help does not mention %s", what)
		}
	}
}

var update = flag.Bool("update", false, "update the generated files")

//go:generate go test -run ^TestReferencePage$ . -update

// sectionOf returns the title under which docs/configuration.md has a variable.
func sectionOf(variable string) string {
	first, _, _ := strings.Cut(variable, "_")
	title := map[string]string{
		"QUEUE": "Queue", "EVENT": "Events", "HOOK": "Hooks", "NODE": "Nodes", "DRAIN": "Drains", "LAUNCH": "Launches",
		"LEADER": "Leader election", "NOTIFY": "Notifications", "LOG": "Log",
	}[first]
	if title == "" || variable == "NODE_NAME" {
		return "General"
	}
	return title
}

// TestReferencePage: docs/configuration.md is up to date. make generate updates it.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	var help, page bytes.Buffer
	if err := config.WriteHelp(&help); err != nil {
		t.Fatal(err)
	}
	intro, _, _ := strings.Cut(help.String(), "\nUsage:")
	fmt.Fprintf(&page, "# Configuration\n\n<!-- Generated by `make generate` from the structs that the "+
		"variables are read into. -->\n\n%s", intro)
	section := ""
	for _, v := range config.Variables() {
		if title := sectionOf(v.Name); title != section {
			section = title
			fmt.Fprintf(&page, "\n## %s\n\n| Variable | Default | What it does |\n| --- | --- | --- |\n", section)
		}
		initial := "`" + v.Default + "`"
		switch {
		case v.Required:
			initial = "required"
		case v.Default == "":
			initial = "not set"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", v.Name, initial, v.Help)
	}
	const file = "../../docs/configuration.md"
	if *update {
		if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	current, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(current), page.String()); diff != "" {
		t.Errorf("%s is stale, go test ./internal/config -update updates it (-want +got):\n%s", file, diff)
	}
}

// full is a disk without space.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteError(t *testing.T) {
	t.Parallel()
	if err := config.WriteHelp(full{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
