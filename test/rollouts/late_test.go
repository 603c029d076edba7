package rollouts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// late is a rollout in a group that AWS describes late, which may have no room for the surge.
func late(mode refresh.Mode, most int) Spec {
	s := plain(mode)
	s.Visible, s.Groups[0].Max = 20*time.Second, most
	if s.Options.RaiseMax = mode == refresh.ModeUnhealthy; !s.Options.RaiseMax {
		s.Options.Surge = refresh.Amount{}
	}
	s.Options.Suspend, s.Options.OnInterrupt = []string{"AZRebalance"}, plan.Cancel
	return s
}

// TestLateDescriptions: whenever a trigger is interrupted or killed, or another one begins, what it has changed is given
// back although AWS describes that late.
func TestLateDescriptions(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 10
	}
	for name, change := range map[string]func(s *Spec, n int){
		"interrupted": func(s *Spec, n int) { s.Runs[0].Interrupt = time.Duration(n) * 2 * time.Second },
		"killed":      func(s *Spec, n int) { s.Runs = []Run{{Kill: n}, {At: 3 * time.Second}} },
		"two after a dead one": func(s *Spec, n int) {
			s.Runs = []Run{{Kill: 4}, {At: 10 * time.Minute}, {At: 10*time.Minute + time.Duration(n)*time.Second}}
		},
		"two": func(s *Spec, n int) { s.Runs = []Run{{}, {At: time.Duration(n) * time.Second}} },
	} {
		for _, mode := range []refresh.Mode{refresh.ModeUnhealthy, refresh.ModeStandby} {
			for n := 1; n <= 30; n += step {
				t.Run(fmt.Sprintf("%s/%s/%d", name, mode, n), func(t *testing.T) {
					spec := late(mode, 4+4*(n%2))
					change(&spec, n)
					r := Simulate(t, spec)
					if len(r.Violations) > 0 || strings.Contains(r.Log(), "written again") {
						t.Errorf("%v\n%s", r.Violations, r.Log())
					}
					if name == "two" && r.Outcomes[report.Conflict] != 1 {
						t.Errorf("outcomes %v\n%s", r.Outcomes, r.Log())
					}
				})
			}
		}
	}
}
