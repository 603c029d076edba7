package main

import (
	"os"
	"strings"
	"testing"
)

// TestCopiesAreUpdated: only the lines below a comment are replaced.
func TestCopiesAreUpdated(t *testing.T) {
	t.Parallel()
	for file, write := range map[string]func(string) (string, error){
		"../cloudformation/node-drainer.yaml": updateTemplate, "../../docs/iam.md": updatePage, "../../docs/events.md": updatePage,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stale := strings.ReplaceAll(string(text), `"Effect": "Allow"`, `"Effect": "Perhaps"`)
		stale = strings.ReplaceAll(stale, `"source": ["aws.ec2"],`+"\n", "")
		if stale == string(text) {
			t.Fatalf("%s shows no document", file)
		}
		renewed, err := write(stale)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if renewed != string(text) {
			t.Errorf("%s is not what it was; or it is stale: run make generate", file)
		}
	}
}

// TestInvalidCopies: a missing document, or a placeholder without a value, is an error.
func TestInvalidCopies(t *testing.T) {
	t.Parallel()
	for text, write := range map[string]func(string) (string, error){
		"    PolicyDocument: # iam/agent-nothing.json\n":    updateTemplate,
		"    PolicyDocument: # iam/key.json\n":              updateTemplate, // The template creates no key.
		"<!-- deploy iam/agent-nothing -->\n```json\n```\n": updatePage,
	} {
		if renewed, err := write(text); err == nil {
			t.Errorf("%q became %q", text, renewed)
		}
	}
}
