package awsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is an engine without a network, so that a bubble's clock drives it, with one group of instances of the
// launch template's version 1. The template has a version 2.
type fleet struct {
	t *testing.T
	s *Server
}

const fleetTemplate = "node"

func newFleet(t *testing.T, g Group, hooks ...Hook) fleet {
	t.Helper()
	s := &Server{opts: Options{}.withDefaults()}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	s.startEngine()
	t.Cleanup(func() {
		s.cancel()
		s.asg.close()
	})
	f := fleet{t, s}
	_, err := s.CreateLaunchTemplate(fleetTemplate, "ami-1")
	f.must(err)
	f.call("CreateLaunchTemplateVersion", "LaunchTemplateName", fleetTemplate, "LaunchTemplateData.ImageId", "ami-2")
	g.Name, g.LaunchTemplate = "g", fleetTemplate
	if g.LaunchTemplateVersion == "" {
		g.LaunchTemplateVersion = "1"
	}
	g.Max = max(g.Max, g.Desired)
	f.must(s.CreateGroup(g))
	synctest.Wait()
	for _, h := range hooks {
		f.must(s.PutHook("g", h))
	}
	return f
}

func (f fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// try calls an action with pairs of parameters; the group's name goes without saying.
func (f fleet) try(action string, pairs ...string) (any, error) {
	values := url.Values{"AutoScalingGroupName": {"g"}}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	do := autoscalingActions(f.s.asg)[action]
	if do == nil {
		do = ec2Actions(f.s.asg)[action]
	}
	return do(f.t.Context(), input{Values: values})
}

func (f fleet) call(action string, pairs ...string) any {
	f.t.Helper()
	out, err := f.try(action, pairs...)
	f.must(err)
	return out
}

// refresh starts a refresh to version 2 with these preferences.
func (f fleet) refresh(pairs ...string) {
	f.t.Helper()
	f.call("StartInstanceRefresh", f.toVersion2(pairs...)...)
}

func (f fleet) toVersion2(pairs ...string) []string {
	out := []string{
		"DesiredConfiguration.LaunchTemplate.LaunchTemplateName", fleetTemplate,
		"DesiredConfiguration.LaunchTemplate.Version", "2",
	}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, "Preferences."+pairs[i], pairs[i+1])
	}
	return out
}

// ends waits for the end of the refresh and checks how it ended.
func (f fleet) ends(status string) Refresh {
	f.t.Helper()
	got, err := f.s.WaitRefresh(f.t.Context(), "g", refreshSuccessful, refreshFailed, refreshCancelled,
		refreshRollbackSuccessful, refreshRollbackFailed)
	f.must(err)
	synctest.Wait()
	if got.Status != status {
		f.t.Fatalf("the refresh is %+v, want %s", got, status)
	}
	return got
}

// now is the refresh as it is when nothing moves.
func (f fleet) now() Refresh {
	synctest.Wait()
	f.s.asg.mu.Lock()
	defer f.s.asg.mu.Unlock()
	all := f.s.asg.groups["g"].refreshes
	r := all[len(all)-1]
	return Refresh{ID: r.id, Status: r.status, Reason: r.reason, Percent: r.percent, ToUpdate: r.toUpdate}
}

// tally counts the group's instances by state and version, such as "8 InService v1, 2 Pending:Wait v2".
func (f fleet) tally() string {
	synctest.Wait()
	counts := map[string]int{}
	for _, i := range f.s.Instances("g") {
		counts[fmt.Sprintf("%s v%d", i.State, i.Version)]++
	}
	var out []string
	for _, key := range sortedKeys(counts) {
		out = append(out, fmt.Sprintf("%d %s", counts[key], key))
	}
	return strings.Join(out, ", ")
}

func (f fleet) want(tally string) {
	f.t.Helper()
	if got := f.tally(); got != tally {
		f.t.Fatalf("the group has %s; want %s", got, tally)
	}
}

// ids are the instances in one state.
func (f fleet) ids(state string) []string {
	synctest.Wait()
	var out []string
	for _, i := range f.s.Instances("g") {
		if i.State == state {
			out = append(out, i.ID)
		}
	}
	return out
}

// answer completes the hook of all instances that are in a state now.
func (f fleet) answer(state, hook, result string) {
	f.t.Helper()
	for _, id := range f.ids(state) {
		f.must(f.s.asg.lifecycle.complete("g", hook, "", id, result))
	}
	synctest.Wait()
}

func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var (
	launchHook = Hook{Name: "ready", Transition: Launching, HeartbeatTimeout: 48 * time.Hour}
	drainHook  = Hook{Name: "drain", HeartbeatTimeout: 48 * time.Hour}
)

func TestRefreshBounds(t *testing.T) {
	for name, row := range map[string]struct {
		desired, min, max int
		fewest, most      int
	}{
		"the default of ninety percent":                      {desired: 10, min: 90, fewest: 9, most: 10},
		"the minimum is rounded up":                          {desired: 15, min: 90, fewest: 14, most: 15},
		"the maximum is rounded down":                        {desired: 15, min: 90, max: 110, fewest: 14, most: 16},
		"a small group by default: one goes first":           {desired: 3, min: 90, fewest: 2, most: 3},
		"a single instance by default: it goes first":        {desired: 1, min: 90, fewest: 0, most: 1},
		"a small group whose surge is rounded away":          {desired: 3, min: 100, max: 110, fewest: 3, most: 4},
		"all must stay: one is launched first":               {desired: 10, min: 100, fewest: 10, most: 11},
		"a maximum of 100 that was given is exceeded":        {desired: 10, min: 100, max: 100, fewest: 10, most: 11},
		"a small group with a maximum of 100 that was given": {desired: 3, min: 90, max: 100, fewest: 3, most: 4},
		"double":             {desired: 1, min: 100, max: 200, fewest: 1, most: 2},
		"everything at once": {desired: 10, min: 0, fewest: 0, most: 10},
		"an empty group":     {desired: 0, min: 90, fewest: 0, most: 0},
		"room below leaves a maximum of 100 as it was":        {desired: 10, min: 50, max: 100, fewest: 5, most: 10},
		"room above leaves a minimum of 100 percent as it is": {desired: 10, min: 100, max: 150, fewest: 10, most: 15},
	} {
		t.Run(name, func(t *testing.T) {
			fewest, most := preferences{min: row.min, max: row.max}.bounds(row.desired)
			if fewest != row.fewest || most != row.most {
				t.Errorf("got %d and %d, want %d and %d", fewest, most, row.fewest, row.most)
			}
		})
	}
}

func TestRefreshLaunchesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, launchHook, drainHook)
		f.refresh("MinHealthyPercentage", "100", "MaxHealthyPercentage", "110", "InstanceWarmup", "60")
		f.want("3 InService v1, 1 Pending:Wait v2")
		f.answer("Pending:Wait", "ready", resume)
		f.want("3 InService v1, 1 InService v2")
		if got := f.now(); !strings.Contains(got.Reason, "is warming up") || got.Percent != 0 || got.ToUpdate != 3 {
			t.Errorf("while the first one warms up: %+v", got)
		}
		elapse(time.Minute)
		f.want("2 InService v1, 1 InService v2, 1 Pending:Wait v2, 1 Terminating:Wait v1")
		if got := f.now(); got.Percent != 33 || got.ToUpdate != 2 {
			t.Errorf("after the first: %+v", got)
		}
		for range 2 {
			f.answer("Pending:Wait", "ready", resume)
			elapse(time.Minute)
		}
		got := f.ends(refreshSuccessful)
		f.want("3 InService v2, 3 Terminating:Wait v1") // The drains are not waited for.
		if got.Percent != 100 || got.ToUpdate != 0 || got.Reason != "" {
			t.Errorf("in the end: %+v", got)
		}
		if saved := f.s.asg.groups["g"].source.template.version; saved != "2" {
			t.Errorf("the group launches from version %s", saved)
		}
	})
}

func TestRefreshTerminatesFirstWithoutMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, launchHook, drainHook)
		f.refresh()
		f.want("2 InService v1, 1 Pending:Wait v2, 1 Terminating:Wait v1")
		f.answer("Pending:Wait", "ready", resume)
		f.want("1 InService v1, 1 InService v2, 1 Pending:Wait v2, 2 Terminating:Wait v1")
		f.answer("Pending:Wait", "ready", resume)
		f.answer("Pending:Wait", "ready", resume)
		f.ends(refreshSuccessful)
		f.want("3 InService v2, 3 Terminating:Wait v1")
	})
}

// What never becomes ready must not eat the group: the launch hook abandons it each time, and after an hour
// the refresh is over.
func TestRefreshToWhatNeverBecomesReady(t *testing.T) {
	for name, row := range map[string]struct {
		prefs []string
		gone  int // Old instances that had to go for it.
	}{
		"launch first: no old instance goes":           {prefs: []string{"MinHealthyPercentage", "100", "MaxHealthyPercentage", "120"}},
		"by default one in ten goes":                   {gone: 1},
		"a third goes if the percentages allow":        {prefs: []string{"MinHealthyPercentage", "66"}, gone: 3},
		"all go if the percentages allow":              {prefs: []string{"MinHealthyPercentage", "0"}, gone: 10},
		"launch first, one by one: no old one goes":    {prefs: []string{"MinHealthyPercentage", "100"}},
		"up to the first checkpoint, though all could": {prefs: []string{"MinHealthyPercentage", "0", "CheckpointPercentages.member.1", "20", "CheckpointPercentages.member.2", "100"}, gone: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Group{Desired: 10}, launchHook)
				began := time.Now()
				f.refresh(row.prefs...)
				for f.now().Status == refreshInProgress {
					elapse(7 * time.Minute)
					f.answer("Pending:Wait", "ready", abandon)
				}
				got := f.ends(refreshFailed)
				if took := time.Since(began); took < time.Hour || took > 70*time.Minute {
					t.Errorf("it failed after %s", took)
				}
				if !strings.Contains(got.Reason, "no progress for 1h0m0s") || got.Percent != 0 || got.ToUpdate != 10 {
					t.Errorf("got %+v", got)
				}
				if old := len(f.ids(stateInService)); old != 10-row.gone {
					t.Errorf("%d old instances went, want %d: %s", 10-old, row.gone, f.tally())
				}
				if saved := f.s.asg.groups["g"].source.template.version; saved != "1" {
					t.Errorf("a failed refresh has saved version %s", saved)
				}
				// The group makes good what is missing, from what it knows to work.
				for len(f.ids("Pending:Wait")) > 0 {
					for _, i := range f.s.Instances("g") {
						if i.State == "Pending:Wait" {
							f.must(f.s.asg.lifecycle.complete("g", "ready", "", i.ID, map[int]string{1: resume, 2: abandon}[i.Version]))
						}
					}
				}
				f.want("10 InService v1")
			})
		})
	}
}

func TestRefreshGivesUpInTheTimeThatATestSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 2}, launchHook)
		f.s.SetDelays(Delays{RefreshGiveUp: 5 * time.Second})
		began := time.Now()
		f.refresh()
		f.ends(refreshFailed)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it failed after %s", took)
		}
	})
}

func TestRefreshOfTheProtectedAndTheStandingBy(t *testing.T) {
	for name, row := range map[string]struct {
		pref, word string
		standby    bool
		want       string
		ends       string
		reason     string
	}{
		"protected: wait":       {ends: refreshFailed, reason: "is protected from scale in", want: "1 InService v1, 2 InService v2"},
		"protected: ignore":     {pref: "ScaleInProtectedInstances", word: "Ignore", ends: refreshSuccessful, want: "1 InService v1, 2 InService v2"},
		"protected: refresh":    {pref: "ScaleInProtectedInstances", word: "Refresh", ends: refreshSuccessful, want: "3 InService v2"},
		"on standby: wait":      {standby: true, ends: refreshFailed, reason: "is in standby", want: "2 InService v2, 1 Standby v1"},
		"on standby: ignore":    {standby: true, pref: "StandbyInstances", word: "Ignore", ends: refreshSuccessful, want: "2 InService v2, 1 Standby v1"},
		"on standby: terminate": {standby: true, pref: "StandbyInstances", word: "Terminate", ends: refreshSuccessful, want: "2 InService v2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Group{Desired: 3})
				id := f.ids(stateInService)[1]
				if row.standby {
					f.call("EnterStandby", "InstanceIds.member.1", id, "ShouldDecrementDesiredCapacity", "true")
				} else {
					f.call("SetInstanceProtection", "InstanceIds.member.1", id, "ProtectedFromScaleIn", "true")
				}
				var prefs []string
				if row.pref != "" {
					prefs = []string{row.pref, row.word}
				}
				f.refresh(prefs...)
				if got := f.ends(row.ends); !strings.Contains(got.Reason, row.reason) {
					t.Errorf("got %+v", got)
				}
				f.want(row.want)
			})
		})
	}
}

func TestRefreshWaitsForTheProtectedToBeReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3})
		id := f.ids(stateInService)[0]
		f.call("SetInstanceProtection", "InstanceIds.member.1", id, "ProtectedFromScaleIn", "true")
		f.refresh()
		elapse(50 * time.Minute)
		f.want("1 InService v1, 2 InService v2")
		f.call("SetInstanceProtection", "InstanceIds.member.1", id, "ProtectedFromScaleIn", "false")
		f.ends(refreshSuccessful)
		f.want("3 InService v2")
	})
}

func TestRefreshSkipsWhatMatches(t *testing.T) {
	for name, row := range map[string]struct {
		prefs []string
		want  int // Machines that were launched for it.
	}{
		"all match: nothing happens":        {prefs: []string{"SkipMatching", "true"}},
		"without skipping all are replaced": {want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Group{Desired: 4, LaunchTemplateVersion: "2"})
				before := f.s.asg.launches
				f.refresh(row.prefs...)
				if got := f.ends(refreshSuccessful); got.Percent != 100 {
					t.Errorf("got %+v", got)
				}
				if launched := f.s.asg.launches - before; launched != row.want {
					t.Errorf("%d launched", launched)
				}
			})
		})
	}
}

// TestRefreshToAVersionThatMoves: of three instances of version 1 one has been replaced when the template's
// $Latest or $Default becomes another.
func TestRefreshToAVersionThatMoves(t *testing.T) {
	newVersion := func(f fleet) {
		f.call("CreateLaunchTemplateVersion", "LaunchTemplateName", fleetTemplate, "LaunchTemplateData.ImageId", "ami-3")
	}
	setDefault := func(number string) func(f fleet) {
		return func(f fleet) {
			f.call("ModifyLaunchTemplate", "LaunchTemplateName", fleetTemplate, "SetDefaultVersion", number)
		}
	}
	for name, row := range map[string]struct {
		to    string
		group string // What the group itself launches; nothing is asked for then.
		skip  string
		moves func(f fleet)
		want  string
	}{
		"what was replaced is replaced again":               {to: "$Latest", skip: "true", moves: newVersion, want: "3 InService v3"},
		"the same without a desired configuration":          {group: "$Latest", skip: "true", moves: newVersion, want: "3 InService v3"},
		"without skip matching it stays what it became":     {to: "$Latest", skip: "false", moves: newVersion, want: "1 InService v2, 2 InService v3"},
		"a number does not move":                            {to: "2", skip: "true", moves: newVersion, want: "3 InService v2"},
		"$Default does not move with a new version":         {to: "$Default", skip: "true", moves: newVersion, want: "3 InService v2"},
		"$Default moves with the template's":                {to: "$Default", skip: "true", moves: setDefault("1"), want: "3 InService v1"},
		"what matches again is left alone, and not counted": {group: "$Default", skip: "true", moves: setDefault("1"), want: "3 InService v1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Group{Desired: 3}, launchHook)
				setDefault("2")(f)
				prefs := []string{"Preferences.SkipMatching", row.skip, "Preferences.MinHealthyPercentage", "100"}
				if row.to != "" {
					prefs = append(prefs, "DesiredConfiguration.LaunchTemplate.LaunchTemplateName", fleetTemplate,
						"DesiredConfiguration.LaunchTemplate.Version", row.to)
				} else {
					f.call("UpdateAutoScalingGroup", "LaunchTemplate.LaunchTemplateName", fleetTemplate,
						"LaunchTemplate.Version", row.group)
				}
				f.call("StartInstanceRefresh", prefs...)
				f.want("3 InService v1, 1 Pending:Wait v2")
				row.moves(f)
				f.answer("Pending:Wait", "ready", resume)
				for range 9 {
					f.answer("Pending:Wait", "ready", resume)
				}
				if got := f.ends(refreshSuccessful); got.Percent != 100 || got.ToUpdate != 0 {
					t.Errorf("got %+v", got)
				}
				f.want(row.want)
			})
		})
	}
}

func TestRefreshWithCheckpointsAndBakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 10})
		began := time.Now()
		f.refresh("CheckpointPercentages.member.1", "25", "CheckpointPercentages.member.2", "100",
			"CheckpointDelay", "600", "BakeTime", "300")
		f.want("7 InService v1, 3 InService v2")
		if got := f.now(); got.Percent != 30 || !strings.Contains(got.Reason, "checkpoint of 25 percent") {
			t.Errorf("at the checkpoint: %+v", got)
		}
		elapse(599 * time.Second)
		f.want("7 InService v1, 3 InService v2")
		elapse(time.Second)
		f.want("10 InService v2")
		if got := f.now(); got.Status != refreshBaking || got.Percent != 100 {
			t.Errorf("after the last checkpoint: %+v", got)
		}
		f.ends(refreshSuccessful)
		if took := time.Since(began); took != 900*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// The new ones are there and warm, so that the old ones that go bring the refresh to its checkpoint at once.
func TestRefreshHaltsAtACheckpointAfterLaunchingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 4})
		f.refresh("MinHealthyPercentage", "100", "MaxHealthyPercentage", "150", "InstanceWarmup", "60",
			"CheckpointPercentages.member.1", "50", "CheckpointPercentages.member.2", "100", "CheckpointDelay", "600")
		elapse(70 * time.Second)
		f.want("2 InService v1, 2 InService v2")
		if got := f.now(); got.Status != refreshInProgress || !strings.Contains(got.Reason, "checkpoint of 50 percent") {
			t.Errorf("at the checkpoint: %+v", got)
		}
		f.ends(refreshSuccessful)
		f.want("4 InService v2")
	})
}

func TestRefreshOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 10})
		f.refresh("CheckpointPercentages.member.1", "35")
		f.ends(refreshSuccessful)
		f.want("6 InService v1, 4 InService v2")
	})
}

func TestRefreshPausesWithItsProcesses(t *testing.T) {
	for _, process := range []string{"InstanceRefresh", "Launch", "Terminate"} {
		t.Run(process, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Group{Desired: 3}, launchHook)
				f.refresh()
				f.want("2 InService v1, 1 Pending:Wait v2")
				f.call("SuspendProcesses", "ScalingProcesses.member.1", process)
				f.answer("Pending:Wait", "ready", resume)
				elapse(3 * time.Hour)
				f.want("2 InService v1, 1 InService v2")
				if got := f.now(); got.Status != refreshInProgress || !strings.Contains(got.Reason, process+" is suspended") {
					t.Errorf("got %+v", got)
				}
				f.call("ResumeProcesses", "ScalingProcesses.member.1", process)
				f.want("1 InService v1, 1 InService v2, 1 Pending:Wait v2")
				f.answer("Pending:Wait", "ready", resume)
				f.answer("Pending:Wait", "ready", resume)
				f.ends(refreshSuccessful)
			})
		})
	}
}

func TestRefreshIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, launchHook, drainHook)
		f.refresh()
		f.want("2 InService v1, 1 Pending:Wait v2, 1 Terminating:Wait v1")
		f.call("CancelInstanceRefresh")
		if got := f.now(); got.Status != refreshCancelling {
			t.Errorf("while one launches and one drains: %+v", got)
		}
		f.answer("Pending:Wait", "ready", resume)
		f.want("2 InService v1, 1 InService v2, 1 Terminating:Wait v1")
		if got := f.now(); got.Status != refreshCancelling {
			t.Errorf("while one drains: %+v", got)
		}
		f.answer("Terminating:Wait", "drain", resume)
		if got := f.ends(refreshCancelled); got.Reason != "Cancelled due to user request." {
			t.Errorf("got %+v", got)
		}
		f.want("2 InService v1, 1 InService v2")
	})
}

func TestRefreshIsCancelledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, launchHook, drainHook)
		f.refresh("MinHealthyPercentage", "100", "MaxHealthyPercentage", "150")
		f.want("3 InService v1, 1 Pending:Wait v2")
		f.call("CancelInstanceRefresh", "WaitForTransitioningInstances", "false")
		f.ends(refreshCancelled)
		f.want("3 InService v1, 1 Terminating:Wait v2") // What had not served goes, no old one does.
		_, err := f.try("CancelInstanceRefresh")
		if err == nil || asError(err).Code != "ActiveInstanceRefreshNotFound" {
			t.Errorf("cancelled twice: %v", err)
		}
	})
}

func TestRefreshIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 4}, launchHook)
		f.refresh("MinHealthyPercentage", "50")
		f.answer("Pending:Wait", "ready", resume)
		f.want("2 InService v2, 2 Pending:Wait v2")
		f.call("RollbackInstanceRefresh")
		if got := f.now(); got.Status != refreshRollbackInProgress || got.Percent != 50 {
			t.Errorf("got %+v", got)
		}
		for len(f.ids("Pending:Wait")) > 0 {
			f.answer("Pending:Wait", "ready", resume)
		}
		if got := f.ends(refreshRollbackSuccessful); got.Percent != 0 || got.ToUpdate != 2 {
			t.Errorf("got %+v", got)
		}
		f.want("4 InService v1")
		if saved := f.s.asg.groups["g"].source.template.version; saved != "1" {
			t.Errorf("the group launches from version %s", saved)
		}
	})
}

func TestRefreshRollsItselfBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 10}, launchHook)
		f.refresh("AutoRollback", "true")
		elapse(61 * time.Minute)
		if got := f.now(); got.Status != refreshRollbackInProgress {
			t.Errorf("got %+v", got)
		}
		if why := f.s.asg.groups["g"].refreshes[0].rollback.reason; !strings.Contains(why, "no progress for 1h0m0s") {
			t.Errorf("rolled back because %s", why)
		}
		f.want("9 InService v1, 1 Pending:Wait v1") // The one that never became ready is gone at once.
		f.answer("Pending:Wait", "ready", resume)
		f.ends(refreshRollbackSuccessful)
	})
}

func TestRollbackThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 2}, launchHook)
		f.refresh("AutoRollback", "true")
		if got := f.ends(refreshRollbackFailed); !strings.Contains(got.Reason, "insufficient data") {
			t.Errorf("got %+v", got)
		}
	})
}

// At no time do fewer serve, nor more live, than the percentages allow, whatever becomes of the new instances.
func TestRefreshKeepsItsBounds(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 0))
			f := newFleet(t, Group{Desired: 1 + dice.IntN(12)}, launchHook, drainHook)
			lowest := dice.IntN(101)
			prefs := []string{
				"MinHealthyPercentage", fmt.Sprint(lowest), "InstanceWarmup", fmt.Sprint(dice.IntN(300)),
			}
			if dice.IntN(2) == 0 {
				prefs = append(prefs, "MaxHealthyPercentage", fmt.Sprint(100+dice.IntN(lowest+1)))
			}
			f.refresh(prefs...)
			g := f.s.asg.groups["g"]
			for i := range 2000 {
				synctest.Wait()
				f.s.asg.mu.Lock()
				r := g.refreshes[0]
				c, over := r.count(time.Now()), r.ended()
				fewest, most := r.prefs.bounds(g.desired)
				f.s.asg.mu.Unlock()
				if !over && (c.ready < fewest || c.live > most) {
					t.Fatalf("seed %d, step %d: %d ready of %d, %d live of %d", seed, i, c.ready, fewest, c.live, most)
				}
				if over {
					break
				}
				f.chance(dice, "Pending:Wait", "ready", []string{resume, resume, resume, abandon})
				f.chance(dice, "Terminating:Wait", "drain", []string{resume})
				elapse(time.Duration(dice.IntN(120)) * time.Second)
			}
			f.ends(refreshSuccessful)
			if got := len(f.ids(stateInService)); got != g.desired {
				t.Errorf("seed %d: %s", seed, f.tally())
			}
		})
	}
}

// chance completes the hooks of some of the instances in a state, with one of the results.
func (f fleet) chance(dice *rand.Rand, state, hook string, results []string) {
	f.t.Helper()
	for _, id := range f.ids(state) {
		if dice.IntN(2) == 0 {
			f.must(f.s.asg.lifecycle.complete("g", hook, "", id, results[dice.IntN(len(results))]))
		}
	}
}
