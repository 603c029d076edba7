package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/config"
)

// TestTheAnswersOfTheFAQ: no answer denies what a flag does.
func TestTheAnswersOfTheFAQ(t *testing.T) {
	t.Parallel()
	page := Pages(t)["docs/faq.md"]
	for question, flag := range map[string]string{
		"Does it change the desired capacity?":       "`trigger rollback`",
		"Can it pause the Cluster Autoscaler?":       "`--pause-autoscaler`",
		"Can it detach, stop or keep old instances?": "`--then stop`",
	} {
		_, answer, asked := strings.Cut(page, "**"+question+"**")
		answer, _, _ = strings.Cut(answer, "\n\n")
		if !asked || !strings.Contains(answer, flag) {
			t.Errorf("the FAQ does not answer %q by %s: %s", question, flag, answer)
		}
	}
}

// TestTheReadmeSaysWhatIsOff: the README praises nothing that is off by default without saying so.
func TestTheReadmeSaysWhatIsOff(t *testing.T) {
	t.Parallel()
	defaults := map[string]string{}
	for _, v := range config.Variables() {
		defaults[v.Name] = v.Default
	}
	module := read(t, filepath.Join(Root(t), "deploy/terraform/variables.tf"))
	launches := regexp.MustCompile(`(?s)variable "launch_hooks" \{.*?default += (\w+)`).FindStringSubmatch(module)
	if launches == nil {
		t.Fatal("the module has no launch_hooks")
	}
	readme := Pages(t)["README.md"]
	for _, feature := range []struct {
		is, off     string // the default, and the one with which the feature is off
		target, say string // the link of its bullet, and what that must say
	}{
		{defaults["DRAIN_SINGLE_REPLICAS"], "evict", "docs/draining.md#single-replicas", "if you choose that"},
		{launches[1], "false", "docs/launching.md", "launch hook"},
		{defaults["DRAIN_TIMEOUT"], "1h", "docs/install.md#tags-and-timeouts", "an hour by default"},
	} {
		bullet := regexp.MustCompile(`(?m)^- .*(?:\n  .*)*\(` + regexp.QuoteMeta(feature.target) + `\)(?:.|\n  )*$`).FindString(readme)
		if feature.is == feature.off && !strings.Contains(bullet, feature.say) {
			t.Errorf("the README does not say %q about %s: %s", feature.say, feature.target, bullet)
		}
	}
}
