package main

import (
	"os"
	"strings"
	"testing"
)

// TestCopiesAreRenewed: what stands below a comment is replaced, whatever it was, and nothing else is touched.
func TestCopiesAreRenewed(t *testing.T) {
	t.Parallel()
	for file, write := range map[string]func(string) (string, error){
		"../cloudformation/node-drainer.yaml": intoTemplate, "../../docs/iam.md": intoPage, "../../docs/events.md": intoPage,
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

// TestCopiesThatCannotBeMade: a document that there is not, or a place that has no value, is an error.
func TestCopiesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for text, write := range map[string]func(string) (string, error){
		"    PolicyDocument: # iam/agent-nothing.json\n":    intoTemplate,
		"    PolicyDocument: # iam/key.json\n":              intoTemplate, // Nobody's key is made by the template.
		"<!-- deploy iam/agent-nothing -->\n```json\n```\n": intoPage,
	} {
		if renewed, err := write(text); err == nil {
			t.Errorf("%q became %q", text, renewed)
		}
	}
}
