package awsim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	launchHook = Hook{Name: "ready", Transition: Launching, HeartbeatTimeout: 48 * time.Hour}
	drainHook  = Hook{Name: "drain", HeartbeatTimeout: 48 * time.Hour}
)

func TestRefreshBounds(t *testing.T) {
	for name, row := range map[string]struct {
		desired, min, max int
		fewest, most      int
	}{
		"the default of ninety percent":                        {desired: 10, min: 90, fewest: 9, most: 10},
		"the minimum is rounded up":                            {desired: 15, min: 90, fewest: 14, most: 15},
		"the maximum is rounded down":                          {desired: 15, min: 90, max: 110, fewest: 14, most: 16},
		"a small group by default: one is terminated first":    {desired: 3, min: 90, fewest: 2, most: 3},
		"a single instance by default: it is terminated first": {desired: 1, min: 90, fewest: 0, most: 1},
		"a small group whose surge is rounded away":            {desired: 3, min: 100, max: 110, fewest: 3, most: 4},
		"all must stay: one is launched first":                 {desired: 10, min: 100, fewest: 10, most: 11},
		"a maximum of 100 that was given is exceeded":          {desired: 10, min: 100, max: 100, fewest: 10, most: 11},
		"a small group with a maximum of 100 that was given":   {desired: 3, min: 90, max: 100, fewest: 3, most: 4},
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
func TestRefreshFailsWithoutProgress(t *testing.T) {
	for name, row := range map[string]struct {
		prefs []string
		gone  int // Old instances that had to go for it.
	}{
		"launch first: no old instance is terminated":        {prefs: []string{"MinHealthyPercentage", "100", "MaxHealthyPercentage", "120"}},
		"by default one in ten is terminated":                {gone: 1},
		"a third is terminated if the percentages allow":     {prefs: []string{"MinHealthyPercentage", "66"}, gone: 3},
		"all go if the percentages allow":                    {prefs: []string{"MinHealthyPercentage", "0"}, gone: 10},
		"launch first, one by one: no old one is terminated": {prefs: []string{"MinHealthyPercentage", "100"}},
		"up to the first checkpoint, though all could":       {prefs: []string{"MinHealthyPercentage", "0", "CheckpointPercentages.member.1", "20", "CheckpointPercentages.member.2", "100"}, gone: 2},
	} {
		bubble(t, name, func(t *testing.T) {
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
						f.must(f.complete("ready", i.ID, map[int]string{1: resume, 2: abandon}[i.Version]))
					}
				}
			}
			f.want("10 InService v1")
		})
	}
}

func TestRefreshOfProtectedAndStandbyInstances(t *testing.T) {
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
		"on standby: wait":      {standby: true, ends: refreshFailed, reason: "is in standby", want: "3 InService v2, 1 Standby v1"},
		"on standby: ignore":    {standby: true, pref: "StandbyInstances", word: "Ignore", ends: refreshSuccessful, want: "3 InService v2, 1 Standby v1"},
		"on standby: terminate": {standby: true, pref: "StandbyInstances", word: "Terminate", ends: refreshSuccessful, want: "3 InService v2"},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 3})
			id := f.ids(stateInService)[1]
			if row.standby {
				f.must(f.s.SetState(id, stateStandby))
			} else {
				f.must(f.s.SetProtection(id, true))
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
	}
}

func TestRefreshSkipsMatching(t *testing.T) {
	for name, row := range map[string]struct {
		prefs []string
		want  int // Machines that were launched for it.
	}{
		"all match: nothing happens":        {prefs: []string{"SkipMatching", "true"}},
		"without skipping all are replaced": {want: 4},
	} {
		bubble(t, name, func(t *testing.T) {
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
	}
}

// TestRefreshToMovingVersion: of three instances of version 1 one has been replaced when the template's
// $Latest or $Default becomes another.
func TestRefreshToMovingVersion(t *testing.T) {
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
		bubble(t, name, func(t *testing.T) {
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
	}
}
