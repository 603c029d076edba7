package awsim

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestUndeliveredNotification: a hook whose notification cannot be delivered does not hold the instance for its
// timeout, whoever sends heartbeats. One without a target does.
func TestUndeliveredNotification(t *testing.T) {
	t.Parallel()
	hook := func(name, result string) Hook {
		return Hook{Name: name, HeartbeatTimeout: time.Hour, DefaultResult: result}
	}
	for name, row := range map[string]struct {
		result string
		direct bool
		retain bool
		broken func(s *Server, url string)
		after  time.Duration
		want   string
	}{
		"the queue is deleted": {resume, true, false, func(s *Server, url string) { s.DeleteQueue(url) }, 6 * time.Second, ""},
		"the queue's policy denies the role": {resume, true, false, func(s *Server, _ string) {
			err := s.sqs.set(s.sqs.queues["jobs"], "Policy", `{"Version": "2012-10-17", "Statement": [
				{"Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}]}`)
			if err != nil {
				panic(err)
			}
		}, 6 * time.Second, ""},
		"not yet":               {resume, true, false, func(s *Server, url string) { s.DeleteQueue(url) }, 4 * time.Second, "1 Terminating:Wait v1"},
		"abandoned, and kept":   {abandon, true, true, func(s *Server, url string) { s.DeleteQueue(url) }, 6 * time.Second, "1 Terminating:Retained v1"},
		"delivered":             {resume, true, false, func(*Server, string) {}, time.Minute, "1 Terminating:Wait v1"},
		"no target and no rule": {resume, false, false, func(s *Server, url string) { s.DeleteQueue(url) }, time.Minute, "1 Terminating:Wait v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Group{Desired: 1, RetainOnAbandon: row.retain})
				url, h := f.s.CreateQueue("jobs", nil), hook("drain", row.result)
				if row.direct {
					h.NotificationTargetARN = f.s.QueueARN(url)
				}
				f.must(f.s.PutHook("g", h))
				row.broken(f.s, url)
				id := f.ids(stateInService)[0]
				f.must(f.s.Terminate(id, true))
				elapse(time.Second)
				f.call("RecordLifecycleActionHeartbeat", "LifecycleHookName", "drain", "InstanceId", id)
				elapse(row.after - time.Second)
				f.want(row.want)
				if got := f.s.Ledger()[0]; row.want == "" && (got.ClosedBy != ByDeliveryFailure || got.Result != resume) {
					t.Errorf("closed wrongly: %+v", got)
				}
			})
		})
	}
}
