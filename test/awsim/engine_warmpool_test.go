package awsim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pool gives the group a warm pool.
func (f fleet) pool(pairs ...string) {
	f.t.Helper()
	f.call("PutWarmPool", pairs...)
}

// routes are the ledger's open actions: transition, from where, to where.
func (f fleet) routes() string {
	synctest.Wait()
	counts := map[string]int{}
	for _, act := range f.s.Ledger() {
		if act.ClosedAt.IsZero() {
			_, transition, _ := strings.Cut(act.Transition, "INSTANCE_")
			counts[fmt.Sprintf("%s %s->%s", transition, act.Origin, act.Destination)]++
		}
	}
	var out []string
	for _, key := range sortedKeys(counts) {
		out = append(out, fmt.Sprintf("%d %s", counts[key], key))
	}
	return strings.Join(out, ", ")
}

// path is every state that an instance has been in.
func (f fleet) path(id string) string {
	f.s.asg.mu.Lock()
	defer f.s.asg.mu.Unlock()
	var out []string
	for _, p := range f.s.asg.instances[id].states {
		out = append(out, p.state)
	}
	return strings.Join(out, " ")
}

func TestWarmPoolIsFilledAndDrawnFrom(t *testing.T) {
	for name, row := range map[string]struct {
		rests, machine string
	}{
		"stopped":    {rests: "Stopped", machine: "stopped"},
		"running":    {rests: "Running", machine: "running"},
		"hibernated": {rests: "Hibernated", machine: "stopped"},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 2, Max: 4}, launchHook, drainHook)
			f.pool("PoolState", row.rests)
			f.want("2 InService v1, 2 Warmed:Pending:Wait v1")
			if got := f.routes(); got != "2 LAUNCHING EC2->WarmPool" {
				t.Errorf("on the way into the pool: %s", got)
			}
			f.answer("Warmed:Pending:Wait", "ready", resume)
			f.want("2 InService v1, 2 Warmed:" + row.rests + " v1")
			id := f.ids("Warmed:" + row.rests)[0]
			if got := f.s.asg.instances[id].machine; got != row.machine {
				t.Errorf("the machine is %s", got)
			}
			f.call("SetDesiredCapacity", "DesiredCapacity", "3")
			f.want("2 InService v1, 1 Pending:Wait v1, 1 Warmed:" + row.rests + " v1")
			if got := f.routes(); got != "1 LAUNCHING WarmPool->AutoScalingGroup" {
				t.Errorf("on the way into the group: %s", got)
			}
			f.answer("Pending:Wait", "ready", resume)
			f.want("3 InService v1, 1 Warmed:" + row.rests + " v1")
			want := "Warmed:Pending Warmed:Pending:Wait Warmed:Pending:Proceed Warmed:" + row.rests +
				" Pending Pending:Wait Pending:Proceed InService"
			if got := f.path(id); got != want || f.s.asg.instances[id].machine != "running" {
				t.Errorf("went %s, is %s", got, f.s.asg.instances[id].machine)
			}
		})
	}
}

func TestScaleInWithAWarmPool(t *testing.T) {
	const back = "Pending InService Warmed:Pending Warmed:Pending:Wait Warmed:Pending:Proceed "
	for name, row := range map[string]struct {
		reuse  string
		retain bool
		result string
		route  string
		state  string // That the hook is waited for in.
		path   string
	}{
		"reused": {
			reuse: "true", result: resume, route: "1 TERMINATING AutoScalingGroup->WarmPool", state: "Warmed:Pending:Wait",
			path: back + "Warmed:Stopped",
		},
		"not reused": {
			reuse: "false", result: resume, route: "1 TERMINATING AutoScalingGroup->EC2", state: "Terminating:Wait",
			path: "Pending InService Terminating Terminating:Wait Terminating:Proceed Terminated",
		},
		"reused, and abandoned where such are retained": {
			reuse: "true", retain: true, result: abandon, route: "1 TERMINATING AutoScalingGroup->WarmPool",
			state: "Warmed:Pending:Wait", path: back + "Warmed:Pending:Retained",
		},
		"reused, though abandoned": {
			reuse: "true", result: abandon, route: "1 TERMINATING AutoScalingGroup->WarmPool", state: "Warmed:Pending:Wait",
			path: back + "Warmed:Stopped",
		},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 3, Max: 3, RetainOnAbandon: row.retain}, drainHook)
			f.pool("InstanceReusePolicy.ReuseOnScaleIn", row.reuse)
			f.want("3 InService v1")
			f.call("SetDesiredCapacity", "DesiredCapacity", "2")
			id := f.ids(row.state)[0]
			if got := f.routes(); got != row.route {
				t.Errorf("the hook sends %s", got)
			}
			f.answer(row.state, "drain", row.result)
			if got := f.path(id); got != row.path {
				t.Errorf("went %s", got)
			}
		})
	}
}

func TestWarmPoolSize(t *testing.T) {
	for name, row := range map[string]struct {
		pool []string
		want string
	}{
		"what the group may grow by":             {want: "2 InService v1, 8 Warmed:Stopped v1"},
		"what it is prepared for":                {pool: []string{"MaxGroupPreparedCapacity", "5"}, want: "2 InService v1, 3 Warmed:Stopped v1"},
		"prepared for less than it desires":      {pool: []string{"MaxGroupPreparedCapacity", "1"}, want: "2 InService v1"},
		"the least that is to be there":          {pool: []string{"MaxGroupPreparedCapacity", "1", "MinSize", "2"}, want: "2 InService v1, 2 Warmed:Stopped v1"},
		"a preparation that is taken back again": {pool: []string{"MaxGroupPreparedCapacity", "-1"}, want: "2 InService v1, 8 Warmed:Stopped v1"},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 2, Max: 10})
			f.pool("MaxGroupPreparedCapacity", "4")
			f.pool(row.pool...)
			f.want(row.want)
		})
	}
}

// Instances leave the warm pool through the terminate hooks.
func TestWarmPoolShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 1, Max: 3}, drainHook)
		f.pool()
		f.want("1 InService v1, 2 Warmed:Stopped v1")
		f.pool("MaxGroupPreparedCapacity", "0")
		f.want("1 InService v1, 2 Warmed:Terminating:Wait v1")
		if got := f.routes(); got != "2 TERMINATING WarmPool->EC2" {
			t.Errorf("the hooks send %s", got)
		}
		f.answer("Warmed:Terminating:Wait", "drain", resume)
		f.want("1 InService v1")
	})
}

func TestLaunchIntoTheWarmPoolIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 1, Max: 2}, launchHook, drainHook)
		f.pool()
		id := f.ids("Warmed:Pending:Wait")[0]
		f.answer("Warmed:Pending:Wait", "ready", abandon)
		if got := f.path(id); got != "Warmed:Pending Warmed:Pending:Wait Warmed:Terminating Warmed:Terminating:Wait" {
			t.Errorf("went %s", got)
		}
		f.want("1 InService v1, 1 Warmed:Pending:Wait v1, 1 Warmed:Terminating:Wait v1") // It is tried again.
	})
}

func TestRefreshWithAWarmPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 2, Max: 4}, drainHook)
		f.pool()
		f.want("2 InService v1, 2 Warmed:Stopped v1")
		f.must(f.s.PutHook("g", launchHook))
		f.refresh()
		// No instance of the old version is taken from the pool, and the pool is replaced last.
		f.want("1 InService v1, 1 Pending:Wait v2, 1 Terminating:Wait v1, 2 Warmed:Stopped v1")
		f.answer("Pending:Wait", "ready", resume)
		f.answer("Pending:Wait", "ready", resume)
		f.want("2 InService v2, 2 Terminating:Wait v1, 2 Warmed:Pending:Wait v2, 2 Warmed:Terminating:Wait v1")
		if got := f.now(); got.Status != refreshInProgress || got.Percent != 50 || got.ToUpdate != 2 {
			t.Errorf("when the group is done: %+v", got)
		}
		f.answer("Warmed:Pending:Wait", "ready", resume)
		f.ends(refreshSuccessful)
		f.want("2 InService v2, 2 Terminating:Wait v1, 2 Warmed:Stopped v2, 2 Warmed:Terminating:Wait v1")
	})
}

// recorder is Machines that records its calls, and can block.
type recorder struct {
	mu    sync.Mutex
	calls []string
	block chan struct{} // Stop waits for it.
	pods  []string      // On every node.
	err   error         // Of Pods.
}

func (d *recorder) record(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, what)
	return nil
}

func (d *recorder) Launch(context.Context, string, string) error { return d.record("launch") }
func (d *recorder) LaunchVersion(_ context.Context, _, _ string, version int) error {
	return d.record(fmt.Sprintf("launch v%d", version))
}
func (d *recorder) Start(context.Context, string) error            { return d.record("start") }
func (d *recorder) Pods(context.Context, string) ([]string, error) { return d.pods, d.err }
func (d *recorder) Terminate(context.Context, string) ([]string, error) {
	return d.pods, d.record("terminate")
}

func (d *recorder) Stop(context.Context, string) error {
	if d.block != nil {
		<-d.block
	}
	return d.record("stop")
}

func TestMachinesAreStoppedAndStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Max: 1})
		machines := &recorder{}
		f.s.opts.Machines = machines
		f.s.SetDelays(Delays{Launch: time.Minute})
		f.pool("InstanceReusePolicy.ReuseOnScaleIn", "true")
		for _, desired := range []string{"0", "1", "0"} {
			f.call("SetDesiredCapacity", "DesiredCapacity", desired)
			elapse(61 * time.Second)
		}
		f.pool("MaxGroupPreparedCapacity", "0")
		f.want("")
		want := []string{"launch v1", "stop", "start", "stop", "terminate"}
		if !slices.Equal(machines.calls, want) {
			t.Errorf("got %v", machines.calls)
		}
	})
}

func TestTerminatingMachineIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Max: 1})
		machines := &recorder{block: make(chan struct{})}
		f.s.opts.Machines = machines
		f.pool()
		f.want("1 Warmed:Pending v1")
		f.pool("MaxGroupPreparedCapacity", "0")
		f.want("1 Warmed:Terminating:Proceed v1")
		close(machines.block)
		f.want("")
		if want := []string{"launch v1", "stop", "terminate"}; !slices.Equal(machines.calls, want) {
			t.Errorf("got %v", machines.calls)
		}
	})
}
