package trigger

import (
	"regexp"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/migrate"
)

// TestRunModes runs the flags for each run mode of eks-rolling-update, on two groups. What it does in all groups comes
// before anything else; the rest is done in one group after the other.
func TestRunModes(t *testing.T) {
	t.Parallel()
	phases := []string{"tainted", "raised", "terminated"}
	together := map[string]int{"1": 0, "2": 2, "3": 1, "4": 0} // so many of them
	if modes := len(migrate.RunModes()); modes != len(together) {
		t.Fatalf("there are %d run modes", modes)
	}
	line := regexp.MustCompile(`(?m)^\S+ (batch|workers) .*(tainted|raised|terminated)[ ,]`)
	for _, mode := range migrate.RunModes() {
		t.Run(mode.Number, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, latest(2))
			batch := latest(2)
			batch.Name, batch.Max, batch.LaunchTemplate = "batch", 10, template
			a.createGroup(batch)
			a.addVersion(template, "ami-3")
			r := a.triggerWith([]string{"KUBECONFIG=" + a.cluster("batch", group)},
				append(mode.Flags(), "--asg", "batch,workers")...)
			r.waitExit(0, `batch +done: .*2 instances replaced`, `workers +done: .*2 instances replaced`)
			var all events
			for _, found := range line.FindAllStringSubmatch(r.Output(), -1) {
				if !strings.Contains(found[0], "untainted") {
					all = append(all, event{found[2], found[1]})
				}
			}
			n := together[mode.Number]
			all.expectPhases(t, []string{"batch", group}, phases[:n], phases[n:])
		})
	}
}
