package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden are words and phrases with what to write instead: the term of Kubernetes, AWS or Go.
var forbidden = []struct {
	stem    string // a lower-case part of each match, which is faster to find
	pattern *regexp.Regexp
	instead string
}{
	{"whether", regexp.MustCompile(`(?i)\btells? whether\b`), "reports whether"},
	{"told of", regexp.MustCompile(`(?i)\b(is|are|was|were) told of\b`), "is notified of, reports"},
	{"vacat", regexp.MustCompile(`(?i)\bvacat(e|es|ed|ing)\b`), "drain"},
	{"vigil", regexp.MustCompile(`(?i)\bvigils?\b`), "wait"},
	{"heed", regexp.MustCompile(`(?i)\bheed(s|ed)?\b`), "honor, apply"},
	{"anew", regexp.MustCompile(`(?i)\banew\b`), "again"},
	{"amid", regexp.MustCompile(`(?i)\bamid\b`), "during"},
	{"out of service", regexp.MustCompile(`(?i)\btaken out of service\b`), "cordoned"},
	{" up", regexp.MustCompile(`(?i)\b(taken|took) up\b`), "started"},
	{"the taint", regexp.MustCompile(`(?i)\bbears? the taint`), "tolerates the taint"},
	{"no variable", regexp.MustCompile(`(?i)\bis no variable\b`), "unknown variable"},
	{"retir", regexp.MustCompile(`(?i)\bretir(e|es|ed|ing)\b`), "cordon"},
	{"in vain", regexp.MustCompile(`(?i)\bin vain\b`), "without success"},
}

// awsWording is how Auto Scaling words the causes of its activities, which awsim repeats.
const awsWording = "an instance was taken out of service"

// wordProblems returns the forbidden words in a text.
func wordProblems(file, text string) (problems []string) {
	text = strings.ReplaceAll(text, awsWording, "")
	lower := strings.ToLower(text)
	for _, f := range forbidden {
		if !strings.Contains(lower, f.stem) {
			continue
		}
		for _, at := range f.pattern.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			problems = append(problems,
				fmt.Sprintf("%s:%d: %q: write %q", file, line, text[at[0]:at[1]], f.instead))
		}
	}
	return problems
}

// isChecked reports whether the words of a file are checked: Go files, except for those of this package, the
// documentation, and the charts.
func isChecked(file string) bool {
	switch {
	case strings.HasPrefix(file, "internal/arch/"):
		return false
	case strings.HasSuffix(file, ".go"), strings.HasPrefix(file, "charts/"), file == "README.md":
		return true
	}
	return strings.HasPrefix(file, "docs/") && strings.HasSuffix(file, ".md")
}

func TestWords(t *testing.T) {
	root := moduleRoot(t)
	walk(t, root, func(file string) {
		if !isChecked(file) {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range wordProblems(file, string(text)) {
			t.Error(problem)
		}
	})
}

func TestWordProblems(t *testing.T) {
	for text, want := range map[string]string{
		"isReady tells whether the pod is":            "reports whether",
		"An Observer is told of each pod.":            "is notified of",
		"// vacate drains the node":                   "drain",
		"the vigil over the node":                     "wait",
		"Heed what the preflight found":               "honor",
		"written anew":                                "again",
		"amid the drain":                              "during",
		"Node taken out of service":                   "cordoned",
		"termination taken up":                        "started",
		"pods that bear the taint":                    "tolerates",
		"X is no variable of the trigger":             "unknown variable",
		"the node is retired":                         "cordon",
		"waited in vain":                              "without success",
		"AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT":      "",
		"reports whether; vacation; a renewed ledger": "",
	} {
		t.Run(text, func(t *testing.T) {
			expectProblem(t, wordProblems("docs/a.md", text+"\n"), want)
		})
	}
	for file, want := range map[string]bool{
		"pkg/a/a.go": true, "test/a/a_test.go": true, "docs/a/b.md": true, "README.md": true, "charts/a/values.yaml": true,
		"internal/arch/words_test.go": false, "CHANGELOG.md": false, "docs/termination.svg": false,
	} {
		if got := isChecked(file); got != want {
			t.Errorf("isChecked(%q) = %v", file, got)
		}
	}
}

// walk calls visit with the path of every file of the module, except for testdata and hidden folders.
func walk(t *testing.T, root string, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != root && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		relative, err := filepath.Rel(root, file)
		visit(filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
