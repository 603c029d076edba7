package trigger

import "testing"

// TestTwoTriggers: of two triggers that mark instances of a group, one ends with 6. It takes nothing back that the other
// one has changed.
func TestTwoTriggers(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(4))
	args := []string{"--mode", "unhealthy", "--surge", "1", "--suspend", "AZRebalance"}
	a.holdLaunches()
	first := a.trigger(args...)
	first.waitOutput(`desired capacity raised from 4 to 5`)
	a.trigger("plan", "--mode", "unhealthy", "--surge", "1").waitExit(0, `lease +the trigger .* works on the group`)
	a.trigger(args...).waitExit(6, `another trigger replaces instances`)
	a.trigger("resume").waitExit(0, `nothing else is, because another trigger`)
	a.releaseLaunches()
	first.waitExit(0, `4 instances replaced`)
	a.waitInService(group, 4)
	if tags := a.tags(); len(tags) > 1 {
		t.Errorf("the group has the tags %v", tags)
	}
}
