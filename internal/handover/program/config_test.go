package program

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRead: the defaults, and that each variable is read.
func TestRead(t *testing.T) {
	t.Parallel()
	defaults := Config{
		ListenAddress: ":8080", PodNamespace: "shop", SurgeRecords: "node-drainer-handover-surges",
		LogLevel: "info", LogFormat: "json",
	}
	all := Config{
		"127.0.0.1:80", "shop", "handover-0", "10.0.0.0/8, fd00::/8", true, true, "records", "debug", "console",
	}
	for _, tt := range []struct {
		name    string
		environ []string
		want    Config
	}{
		{"the defaults", []string{"POD_NAMESPACE=shop", "HOME=/"}, defaults},
		{"each variable", []string{
			"LISTEN_ADDRESS=127.0.0.1:80", "POD_NAMESPACE=shop", "POD_NAME=handover-0", "NETWORKS=10.0.0.0/8, fd00::/8",
			"PASSWORDS_IN_CLEAR=true", "SURGES=true", "SURGE_RECORDS=records", "LOG_LEVEL=debug", "LOG_FORMAT=console",
		}, all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Read(tt.environ)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

// TestMistakes: each names its variable, and what to write.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		environ []string // besides the namespace
		want    []string
	}{
		{"no namespace", []string{"POD_NAMESPACE="}, []string{"POD_NAMESPACE", "handover --help lists the variables"}},
		{"no switch", []string{"SURGES=maybe"}, []string{"Surges", `"maybe"`}},
		{"an address without a port", []string{"LISTEN_ADDRESS=localhost"}, []string{
			`LISTEN_ADDRESS is "localhost": must be HOST:PORT or :PORT`,
		}},
		{"no network", []string{"NETWORKS=10.0.0.1"}, []string{`NETWORKS is "10.0.0.1": must be a network in CIDR notation`}},
		{"no level", []string{"LOG_LEVEL=loud"}, []string{`LOG_LEVEL is "loud": must be debug, info, warn or error`}},
		{"two levels", []string{"LOG_LEVEL=debug info"}, []string{`LOG_LEVEL is "debug info": must be`}},
		{"no format", []string{"LOG_FORMAT=xml"}, []string{`LOG_FORMAT is "xml": must be json or console`}},
		{"all at once", []string{"LISTEN_ADDRESS=x", "NETWORKS=x", "LOG_LEVEL=x", "LOG_FORMAT=x"}, []string{
			"LISTEN_ADDRESS is", "NETWORKS is", "LOG_LEVEL is", "LOG_FORMAT is",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Read(append([]string{"POD_NAMESPACE=shop"}, tt.environ...))
			if err == nil {
				t.Fatalf("got %+v", got)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string // a part of it; empty: nothing
	}{
		{[]string{"--help"}, 0, "Usage: handover\n", ""},
		{[]string{"-h"}, 0, "Usage: handover\n", ""},
		{[]string{"--version"}, 0, "node-drainer handover v1\n", ""},
		{[]string{"version"}, 0, "node-drainer handover v1\n", ""},
		{[]string{"--namespace", "shop"}, 2, "", `unknown argument "--namespace shop"`},
		{[]string{""}, 2, "", `unknown argument ""`},
	} {
		var stdout, stderr bytes.Buffer
		code := Answer(tt.args, "v1", &stdout, &stderr)
		isWritten := func(b bytes.Buffer, want string) bool {
			return strings.Contains(b.String(), want) && (b.Len() == 0) == (want == "")
		}
		if code != tt.code || !isWritten(stdout, tt.stdout) || !isWritten(stderr, tt.stderr) {
			t.Errorf("%q: got %d, %q, %q", tt.args, code, stdout.String(), stderr.String())
		}
	}
}

// TestHelpNamesEveryVariable, with its default, and what it does in whole sentences.
func TestHelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	text, count, listed := help(), 0, map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && strings.HasPrefix(line, "  "+name) {
			listed[name] = strings.TrimSpace(value)
		}
	}
	for f := range reflect.TypeFor[Config]().Fields() {
		count++
		name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		want := f.Tag.Get("envDefault")
		if name == "POD_NAMESPACE" {
			want = "(required)"
		}
		if value, ok := listed[name]; !ok || value != want {
			t.Errorf("the help says %q of %s, want %q", value, name, want)
		}
		if explained := f.Tag.Get("help"); !strings.HasSuffix(explained, ".") || !strings.Contains(text, explained) {
			t.Errorf("the help of %s is %q", name, explained)
		}
	}
	if count != 9 {
		t.Errorf("%d variables, want 9", count)
	}
}
