package queue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/cloud"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	s, client := simulatedSQS(t)
	s.CreateQueue("dead", nil)
	const policy = `{"Version":"2012-10-17","Statement":[]}`
	url := s.CreateQueue("jobs.fifo", map[string]string{
		"Policy": policy, "KmsMasterKeyId": "alias/aws/sqs", "MessageRetentionPeriod": "3600",
		"RedrivePolicy": `{"deadLetterTargetArn":"` + s.QueueARN(s.CreateQueue("dead", nil)) + `","maxReceiveCount":7}`,
	})
	got, err := Inspect(t.Context(), client, url)
	if err != nil {
		t.Fatal(err)
	}
	want := Attributes{
		ARN: s.QueueARN(url), Policy: policy, Key: "alias/aws/sqs", FIFO: true, Retention: time.Hour, MaxReceives: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if _, err := Inspect(t.Context(), client, url+"-2"); cloud.ErrorCode(err) != "AWS.SimpleQueueService.NonExistentQueue" {
		t.Errorf("a queue that does not exist: %v", err)
	}
	if n := maxReceives(`{"maxReceiveCount":"12"}`) + maxReceives("") + maxReceives(`{"maxReceiveCount":"x"}`); n != 12 {
		t.Errorf("read %d receives in all, want 12", n)
	}
}

// TestTry: a trial is denied if and only if the permission is missing, and leaves the message in the queue.
func TestTry(t *testing.T) {
	t.Parallel()
	s, client := simulatedSQS(t)
	url := s.CreateQueue("jobs", nil)
	s.Send(url, "work")
	for _, action := range []string{ActionReceive, ActionDelete, ActionRenew} {
		restore := s.Withdraw("", action, 0)
		if err := Try(t.Context(), client, url, action); !cloud.IsDenied(err) {
			t.Errorf("%s without the permission: %v", action, err)
		}
		restore()
		if err := Try(t.Context(), client, url, action); cloud.IsDenied(err) {
			t.Errorf("%s with the permission: %v", action, err)
		}
	}
	if stats := s.Queue(url); stats.Visible != 1 || stats.Received != 0 {
		t.Errorf("the queue is %+v after the trials", stats)
	}
}
