package rollout_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestGroupThatLaunchesOutdatedInstances: the first one ends the rollout, also if it begins again, and a watch. Another
// target is another rollout.
func TestGroupThatLaunchesOutdatedInstances(t *testing.T) {
	inWorld(t, "", awsim.Group{LaunchesFirst: true}, func(w *world) {
		w.setMode(refresh.ModeUnhealthy)
		w.SetDelays(awsim.Delays{Appear: 3 * time.Second})
		ends := scenario{
			want: report.Ineffective, words: "i-4 | version 1 | the group is at 2 | trigger resume --asg workers", calls: "Mark i-1",
		}
		w.play(ends)
		w.play(ends) // It knows from the tag when the first one began.
		w.watchFor(time.Hour)
		w.expectCalls("Mark i-1, Failed lt/2")
		w.newVersion()
		w.play(scenario{want: report.Ineffective, words: "i-5", calls: "Mark i-1, Failed lt/2, Mark i-2"})
	})
}

var (
	described   = regexp.MustCompile(`(?s)<InstanceId>i-\w+</InstanceId>.*?</member>`)
	describedAs = regexp.MustCompile(`(?s)<LaunchTemplate>.*?</LaunchTemplate>`)
)

// describeAs has AWS describe the launch template of instances in another way, if it is set for their ids.
func (w *world) describeAs(template string, isSet func(id string) bool) {
	w.edit = func(action, body string) string {
		if action != "DescribeAutoScalingGroups" {
			return body
		}
		return described.ReplaceAllStringFunc(body, func(one string) string {
			if !isSet(instances.FindString(one)) {
				return one
			}
			return describedAs.ReplaceAllString(one, template)
		})
	}
}

// TestInstancesOfUnknownSource: if AWS names the launch template of no new instance, the first one ends the rollout. It
// may have been attached, but then the group has launched others since.
func TestInstancesOfUnknownSource(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.setMode(refresh.ModeUnhealthy)
		w.describeAs("", func(id string) bool { _, i, _ := w.Member(id); return i.Version == 2 })
		w.play(scenario{want: report.Ineffective, words: "i-4 | unknown", calls: "Mark i-1"})
	})
}

// TestOutdatedInstancesThatJoinTheGroup during a rollout are replaced: those of a warm pool were launched before, and
// only started since, and an attached one was not launched by the group.
func TestOutdatedInstancesThatJoinTheGroup(t *testing.T) {
	const id, first = "i-0123456789abcdef0", "<LaunchTemplate><LaunchTemplateName>node</LaunchTemplateName><Version>1</Version></LaunchTemplate>"
	for name, tt := range map[string]struct {
		template string
		age      time.Duration
	}{"from a warm pool": {first, time.Hour}, "attached": {"", 0}} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			w.setMode(refresh.ModeUnhealthy)
			w.describeAs(tt.template, func(i string) bool { return i == id })
			w.after(30*time.Second, func() {
				w.must(w.AddInstance(w.group, id, ""))
				w.must(w.SetLaunchTime(id, time.Now().Add(-tt.age)))
				w.must(w.SetStartTime(id, time.Now()))
			})
			w.play(scenario{want: report.Done, calls: markAll + ", Mark i-6"})
		})
	}
}
