package lead

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestMark: the Lease of an agent says what it answers, from the first time that it is written, and also after the agent
// was configured otherwise. That of another process does not.
func TestMark(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	read := func(m *Mark) (Agent, bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e, err := New(client, settings(), "pod", m, silent{})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Run(ctx, func(context.Context) error { cancel(); return nil })
		if err != nil {
			t.Fatal(err)
		}
		l, err := client.CoordinationV1().Leases(settings().Namespace).Get(t.Context(), settings().LeaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return AgentOf(l)
	}
	if a, is := read(nil); is {
		t.Errorf("the Lease of another process is that of an agent: %+v", a)
	}
	m := Mark{Cluster: "prod", Queue: "https://sqs.eu-central-1.amazonaws.com/123456789012/prod", Hooks: []string{"drain", "launch"}}
	if a, is := read(&m); !is || a.Cluster != m.Cluster || a.Queue != m.Queue || !slices.Equal(a.Hooks, m.Hooks) {
		t.Errorf("got %+v, want %+v", a, m)
	}
	m.Hooks = nil
	if a, _ := read(&m); len(a.Hooks) > 0 {
		t.Errorf("the hooks are still %v", a.Hooks)
	}
}

// silent is an Observer.
type silent struct{}

func (silent) LeadershipStarted()             {}
func (silent) LeadershipEnded(error)          {}
func (silent) LeaderChanged(string)           {}
func (silent) KubernetesFailed(string, error) {}

// TestAnswers: an agent answers the hooks that it names, or those that reach its queue.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const queue, other = "arn:aws:sqs:eu-central-1:123456789012:prod", "arn:aws:sqs:eu-central-1:123456789012:logs"
	byQueue := Mark{Queue: "https://sqs.eu-central-1.amazonaws.com/123456789012/prod"}
	byName := Mark{Queue: byQueue.Queue, Hooks: []string{"drain"}}
	for _, tt := range []struct {
		mark         Mark
		hook, target string
		want         bool
	}{
		{byQueue, "any", queue, true},
		{byQueue, "any", other, false},
		{byQueue, "any", "", true},
		{byQueue, "any", "arn:aws:sns:eu-central-1:123456789012:hooks", true},
		{byQueue, "any", "nonsense", true},
		{byName, "drain", other, true},
		{byName, "upload-logs", queue, false},
		{byName, "drain", "", true},
	} {
		if got := tt.mark.Answers(tt.hook, tt.target); got != tt.want {
			t.Errorf("%v, %s to %q: %t", tt.mark.Hooks, tt.hook, tt.target, got)
		}
	}
}

// TestIsLive: an agent lives while it renews its Lease; one that has released it does not.
func TestIsLive(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		renewed time.Time
		want    bool
	}{
		"just now": {now, true}, "a minute ago": {now.Add(-time.Minute), true},
		"an hour ago": {now.Add(-time.Hour), false}, "released": {time.Time{}, false},
	} {
		if got := (Agent{Renewed: tt.renewed, Holds: 15 * time.Second}).IsLive(now); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
