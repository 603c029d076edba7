package config_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/config"
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

// TestValues: the tag values lists the allowed values of each variable that has only a few.
func TestValues(t *testing.T) {
	t.Parallel()
	fewWords := regexp.MustCompile(`must be [A-Za-z]+(, [A-Za-z]+)* or [A-Za-z]+$`)
	for _, v := range config.Variables() {
		for _, word := range v.Values {
			if _, err := config.ReadAgent(environ(v.Name + "=" + word)); err != nil {
				t.Errorf("the tag lists %s=%s: %v", v.Name, word, err)
			}
		}
		if v.Type.Kind() != reflect.String {
			continue
		}
		_, err := config.ReadAgent(environ(v.Name + "=unknown"))
		refused := err != nil && fewWords.MatchString(err.Error())
		if refused != (len(v.Values) > 0) {
			t.Errorf("the tag lists %q for %s, the error for an unknown value is: %v", v.Values, v.Name, err)
		}
		if refused && len(words(fewWords.FindString(err.Error()))) != len(v.Values) {
			t.Errorf("the tag lists %q for %s, the error is: %v", v.Values, v.Name, err)
		}
	}
}

// words returns the items of the list after "must be".
func words(sentence string) []string {
	list := strings.ReplaceAll(strings.TrimPrefix(sentence, "must be "), " or ", ", ")
	return strings.Split(strings.ReplaceAll(list, ", , ", ", "), ", ")
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

// TestDocumentation: the page is up to date. Write it with `make generate`.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := config.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(page)); diff != "" {
		t.Errorf("docs/configuration.md is stale (-want +got):\n%s", diff)
	}
}

// full is a disk without space.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	for _, write := range []func(io.Writer) error{config.WriteHelp, config.WriteMarkdown} {
		if err := write(full{}); !errors.Is(err, errFull) {
			t.Errorf("got %v", err)
		}
	}
}
