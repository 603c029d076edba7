package awsim_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestRulesOfSeveralClusters: an action of a hook without a target goes to the queues whose rules match its group
// and, if they name it, its hook.
func TestRulesOfSeveralClusters(t *testing.T) {
	inVirtualTime(t, "three clusters", func(a *account) {
		for name, pattern := range map[string]string{
			"one": `{"source": ["aws.autoscaling"], "detail-type": ["EC2 Instance-terminate Lifecycle Action"],
				"detail": {"AutoScalingGroupName": ["one-a", "one-b"], "LifecycleHookName": ["drain"]}}`,
			"two":     `{"source": ["aws.autoscaling"], "detail": {"AutoScalingGroupName": ["two"]}}`,
			"backup":  `{"detail": {"AutoScalingGroupName": [{"prefix": "one-"}], "LifecycleHookName": [{"anything-but": ["drain"]}]}}`,
			"nothing": `{"detail": {"AutoScalingGroupName": ["three"]}}`,
		} {
			must(a.t, a.PutRule(name, a.QueueARN(a.CreateQueue(name, nil)), pattern))
		}
		for _, group := range []string{"one-a", "one-b", "two"} {
			must(a.t, a.CreateGroup(awsim.Group{Name: group, Max: 1, Desired: 1}))
			synctest.Wait()
			for _, hook := range []string{"drain", "backup"} {
				must(a.t, a.PutHook(group, awsim.Hook{Name: hook}))
			}
			must(a.t, a.Terminate(a.Instances(group)[0].ID, true))
		}
		synctest.Wait()
		for queue, want := range map[string]string{
			"one": "one-a drain, one-b drain", "two": "two drain, two backup",
			"backup": "one-a backup, one-b backup", "nothing": "",
		} {
			var got []string
			for _, body := range a.Held(a.CreateQueue(queue, nil)) {
				detail := unwrap(a.t, object(a.t, body))
				if hook, is := detail["LifecycleHookName"].(string); is {
					got = append(got, detail["AutoScalingGroupName"].(string)+" "+hook)
				}
			}
			if got := strings.Join(got, ", "); got != want {
				a.t.Errorf("queue %s has %s, want %s", queue, got, want)
			}
		}
	})
}

// TestRulePatterns: a rule gets the events that its pattern allows.
func TestRulePatterns(t *testing.T) {
	const event = `{"source": "aws.ec2", "detail-type": "X", "resources": ["arn:a", "arn:b"], "detail": {"state": "running", "n": 1}}`
	for pattern, want := range map[string]int{
		`{}`:                                         1,
		`{"source": ["aws.ec2"]}`:                    1,
		`{"source": ["aws.health"]}`:                 0,
		`{"resources": ["arn:b"]}`:                   1,
		`{"detail": {"state": ["stopped"]}}`:         0,
		`{"detail": {"n": [1, 2]}}`:                  1,
		`{"detail": {"other": ["x"]}}`:               0,
		`{"detail": {"state": {"deeper": ["x"]}}}`:   0,
		`{"source": [{"prefix": "aws."}]}`:           1,
		`{"source": [{"prefix": "my."}]}`:            0,
		`{"source": [{"anything-but": "aws.ec2"}]}`:  0,
		`{"source": [{"anything-but": ["my.app"]}]}`: 1,
	} {
		inVirtualTime(t, pattern, func(a *account) {
			must(a.t, a.PutRule("r", a.QueueARN(a.queue), pattern))
			if got := a.Publish(event); got != want {
				a.t.Errorf("%d messages", got)
			}
		})
	}
	for _, pattern := range []string{
		`[]`, `{"source": "aws.ec2"}`, `{"detail": {"state": 1}}`, `{"source": [{"suffix": "x"}]}`, `{"source": [{"prefix": "a", "anything-but": "b"}]}`,
	} {
		inVirtualTime(t, "refused "+pattern, func(a *account) {
			if err := a.PutRule("r", a.QueueARN(a.queue), pattern); err == nil {
				a.t.Error("the pattern was taken")
			}
		})
	}
}
