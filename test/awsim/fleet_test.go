package awsim

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// offline is a server without a network, which a synctest bubble can drive.
func offline(t *testing.T) *Server {
	t.Helper()
	s := &Server{opts: Options{}.withDefaults()}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	s.startQueues()
	s.startEngine()
	t.Cleanup(func() {
		s.cancel()
		s.asg.close()
	})
	return s
}

// bubble is a part of a test in which time passes only while nothing runs.
func bubble(t *testing.T, name string, run func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
}

// fleet is an engine without a network, so that a bubble's clock drives it, with one group of instances of the
// launch template's version 1. The template has a version 2.
type fleet struct {
	t *testing.T
	s *Server
}

const fleetTemplate = "node"

func newFleet(t *testing.T, g Group, hooks ...Hook) fleet {
	t.Helper()
	s := offline(t)
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

// try calls an action with pairs of parameters. It adds the name of the group.
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
	return all[len(all)-1].state()
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
		f.must(f.complete(hook, id, result))
	}
	synctest.Wait()
}

func (f fleet) complete(hook, id, result string) error {
	return f.s.asg.lifecycle.complete(actionName{group: "g", hook: hook, instanceID: id}, result)
}

func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
