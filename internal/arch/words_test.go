package arch

import (
	"fmt"
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
const awsWording = "was taken out of service in response to"

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
	walk(t, func(file string, read func() []byte) {
		if isChecked(file) {
			for _, problem := range wordProblems(file, string(read())) {
				t.Error(problem)
			}
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
}
