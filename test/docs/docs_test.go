package docs

import (
	"slices"
	"testing"
)

const sample = "Prose with `a span`.\n\n<!-- needs AWS -->\n```sh\naws sqs \\\n  list-queues  # all of them\n\n# nothing\n" +
	"trigger plan\n```\n\n```yaml\na: `b`\n```\nAnd `another one`.\n"

func TestBlocks(t *testing.T) {
	t.Parallel()
	blocks := Blocks(sample, "sh")
	if len(blocks) != 1 || blocks[0].Mark != "needs AWS" {
		t.Fatalf("got %+v", blocks)
	}
	if got, want := blocks[0].Commands(), []string{"aws sqs list-queues", "trigger plan"}; !slices.Equal(got, want) {
		t.Errorf("the commands are %q, want %q", got, want)
	}
	if other := Blocks(sample, "yaml"); len(other) != 1 || other[0].Mark != "" {
		t.Errorf("got %+v", other)
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	if got, want := Spans(sample), []string{"a span", "another one"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
