package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// TestChecks: the module warns of groups without the tag, and of a short timeout, and of nothing else.
func TestChecks(t *testing.T) {
	t.Parallel()
	inputs := map[string]any{"cluster_name": "prod", "groups": map[string]string{"a": "workers", "b": "spot"}}
	p := planOf(t, inputs)
	if got := p.warnings("workers", "spot"); len(got) > 0 {
		t.Errorf("warnings about nothing: %q", got)
	}
	got := p.warnings("spot")
	if len(got) != 1 || !strings.Contains(got[0], "kubernetes.io/cluster/prod=owned: workers\n") ||
		!strings.Contains(got[0], "aws autoscaling create-or-update-tags") {
		t.Errorf("warnings about a group without the tag: %q", got)
	}
	inputs["heartbeat_timeout"] = 60
	if got := planOf(t, inputs).warnings("workers", "spot"); len(got) != 1 || !strings.Contains(got[0], "heartbeat_timeout is 60") {
		t.Errorf("warnings about a short timeout: %q", got)
	}
}

// TestCheckedTag: the check reads the groups by the tag that the roles require.
func TestCheckedTag(t *testing.T) {
	t.Parallel()
	for _, b := range loadModule(t, "terraform").all("check") {
		i := slices.IndexFunc(b.Body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "data" })
		if i < 0 {
			continue
		}
		filter := b.Body.Blocks[i].Body.Blocks[0].Body.Attributes
		if got := source(t, filter["name"]); got != `"tag:${local.values.GroupTagKey}"` {
			t.Errorf("the check filters by %s", got)
		}
		return
	}
	t.Error("no check reads groups")
}
