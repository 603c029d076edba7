package trigger

import (
	"regexp"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/docs"
)

// TestRunModes runs the flags of each run mode that docs/migration/eks-rolling-update.md names, on two groups. What it
// does in all groups comes before anything else; the rest is done in one group after the other.
func TestRunModes(t *testing.T) {
	t.Parallel()
	phases := []string{"tainted", "raised", "terminated"}
	together := map[string]int{"1": 0, "2": 2, "3": 1, "4": 0} // so many of them
	rows := regexp.MustCompile("(?m)^\\| `RUN_MODE` ([0-9]): .*? \\| `(.*?)` \\|").
		FindAllStringSubmatch(docs.Pages(t)["docs/migration/eks-rolling-update.md"], -1)
	if len(rows) != len(together) {
		t.Fatalf("the page has %d run modes", len(rows))
	}
	line := regexp.MustCompile(`(?m)^\S+ (batch|workers) .*(tainted|raised|terminated)[ ,]`)
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, latest(2))
			batch := latest(2)
			batch.Name, batch.Max, batch.LaunchTemplate = "batch", 10, template
			a.createGroup(batch)
			a.addVersion(template, "ami-3")
			r := a.triggerWith([]string{"KUBECONFIG=" + a.cluster("batch", group)},
				append(strings.Fields(row[2]), "--asg", "batch,workers")...)
			r.waitExit(0, `batch +done: .*2 instances replaced`, `workers +done: .*2 instances replaced`)
			var all events
			for _, found := range line.FindAllStringSubmatch(r.Output(), -1) {
				if !strings.Contains(found[0], "untainted") {
					all = append(all, event{found[2], found[1]})
				}
			}
			n := together[row[1]]
			all.expectPhases(t, []string{"batch", group}, phases[:n], phases[n:])
		})
	}
}
