package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/handover/webhook"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// TestAnswers expects a status and a reply to each question, and that only one about a member is passed on.
func TestAnswers(t *testing.T) {
	own := func(node string, changes ...func(*workload.Pod)) workload.Pod {
		return member("handover-0", append(changes, on(node))...)
	}
	const notLeading, behind = handover.NotLeading, handover.GroupBehind
	for _, tt := range []struct {
		name   string
		pods   []workload.Pod
		pod    string
		change func(*webhook.Question)
		status int
		want   webhook.Reply
		asked  bool // the Releaser
	}{
		{
			"a member",
			[]workload.Pod{member("a")},
			"a", nil,
			200,
			webhook.Reply{Outcome: handover.HandedOver, Message: "b leads", Leader: "b"},
			true,
		},
		{
			"a pod of another namespace",
			[]workload.Pod{member("a")},
			"a", func(q *webhook.Question) { q.Namespace = "pay" },
			403,
			webhook.Reply{Message: "the pod is of another namespace than this program"},
			false,
		},
		{"no namespace", []workload.Pod{member("a")}, "a", func(q *webhook.Question) { q.Namespace = "" }, 403, webhook.Reply{
			Message: "the pod is of another namespace than this program",
		}, false},
		{"a pod that is gone", []workload.Pod{member("b")}, "a", nil, 200, webhook.Reply{Outcome: notLeading, Message: "the pod is gone"}, false},
		{
			"another pod of the same name",
			[]workload.Pod{member("a")},
			"a", func(q *webhook.Question) { q.UID = "1" },
			200,
			webhook.Reply{Outcome: notLeading, Message: "the pod is gone"},
			false,
		},
		{
			"no annotation",
			[]workload.Pod{member("a", func(p *workload.Pod) { p.Annotations = nil })},
			"a", nil,
			200,
			webhook.Reply{
				Outcome: handover.Invalid, Message: "the pod does not have the annotation node-drainer.io/hand-over",
			},
			false,
		},
		{
			"another kind",
			[]workload.Pod{member("a", annotated(handover.KindAnnotation, handover.GateKind))},
			"a", nil,
			200,
			webhook.Reply{
				Outcome: handover.Invalid, Message: "the pod does not have the annotation node-drainer.io/hand-over",
			},
			false,
		},
		{
			"this pod, before others of its node",
			[]workload.Pod{own("n"), member("a", on("n"))},
			"handover-0", nil,
			202,
			webhook.Reply{Outcome: behind, Message: "a, which leaves too, has not handed over yet"},
			false,
		},
		{
			"this pod, before others of a node that leaves",
			[]workload.Pod{own("n"), member("a"), member("b", on("m"))},
			"handover-0", leaving("n", "m"),
			202,
			webhook.Reply{Outcome: behind, Message: "b, which leaves too, has not handed over yet"},
			false,
		},
		{
			"this pod, and one without a node",
			[]workload.Pod{own("n"), member("a", on(""))},
			"handover-0", leaving("n"),
			200,
			webhook.Reply{Outcome: notLeading},
			false,
		},
		{
			"this pod, at last",
			[]workload.Pod{own("n"), member("a", on("n"))},
			"handover-0", last,
			200,
			webhook.Reply{Outcome: notLeading},
			false,
		},
		{
			"this pod, alone on its node",
			[]workload.Pod{own("n"), member("a")},
			"handover-0", leaving("n"),
			200,
			webhook.Reply{Outcome: notLeading},
			false,
		},
		{"this pod, after the others", []workload.Pod{
			own("n"), member("deleted", on("n"), func(p *workload.Pod) { p.Deleting = true }),
			member("ended", on("n"), func(p *workload.Pod) { p.IP = "" }),
			member("of-another-Service", on("n"), annotated(handover.ServiceAnnotation, "other")),
			member("of-no-group", on("n"), func(p *workload.Pod) { p.Annotations = nil }),
		}, "handover-0", nil, 200, webhook.Reply{Outcome: notLeading}, false},
		{
			"this pod, without the annotation",
			[]workload.Pod{own("n", func(p *workload.Pod) { p.Annotations = nil })},
			"handover-0", nil,
			200,
			webhook.Reply{
				Outcome: handover.Invalid, Message: "the pod does not have the annotation node-drainer.io/hand-over",
			},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.pods...)
			f.release = always(handover.Answer{Go: true, Outcome: handover.HandedOver, Message: "b leads", Leader: "b"})
			var changes []func(*webhook.Question)
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			status, got := f.ask(tt.pod, changes...)
			if diff := cmp.Diff(tt.want, got); status != tt.status || diff != "" {
				t.Error(status, diff)
			}
			if calls := f.done(""); len(calls) > 0 != tt.asked {
				t.Errorf("got calls %q", calls)
			}
		})
	}
}

// TestBrokenQuestions are no reason to ask anybody.
func TestBrokenQuestions(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "<html>", "another type": `{"namespace":"shop","leaving":"n"}`,
		"cut off":   `{"namespace":"shop"`,
		"too large": `{"namespace":"shop","pod":"a","uid":"uid-a","node":"` + strings.Repeat("x", maxBody) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, member("a"))
			w := f.post(t.Context(), body)
			if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), "the body is no question: ") {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if len(f.calls)+len(f.told) > 0 {
				t.Errorf("got calls %v, %q", f.calls, f.told)
			}
		})
	}
}

// TestNamesOfManyNodes fit into a question.
func TestNamesOfManyNodes(t *testing.T) {
	f := newFixture(t, member("a"))
	nodes := make([]string, 10_000)
	for i := range nodes {
		nodes[i] = "ip-100-100-100-100.ap-southeast-2.compute.internal" + strings.Repeat("x", i%40)
	}
	if status, got := f.ask("a", leaving(nodes...)); status != 200 {
		t.Errorf("got %d %+v", status, got)
	}
}

// TestFailures: without an answer of the API server or of the Releaser there is none.
func TestFailures(t *testing.T) {
	f := newFixture(t, member("a"))
	f.release = func(context.Context, workload.Request) (handover.Answer, error) {
		return handover.Answer{}, errors.New("no time left")
	}
	if status, got := f.ask("a"); status != 503 || got.Message != "no time left" {
		t.Errorf("got %d %+v", status, got)
	}
	f.listing = func() error { return errors.New("forbidden") }
	if status, got := f.ask("a"); status != 503 || got.Message != "list the pods of namespace shop: forbidden" {
		t.Errorf("got %d %+v", status, got)
	}
	if len(f.done("release")) != 1 || !strings.Contains(f.told[1], "forbidden") {
		t.Errorf("got calls %v, %q", f.calls, f.told)
	}
}

// TestReleaserKnowsTheNamespace: all pods, and whether their nodes stay.
func TestReleaserKnowsTheNamespace(t *testing.T) {
	f := newFixture(t, member("b"), member("a"), member("c", on("m")), member("d", on("")))
	deadline := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.ask("a", last, leaving("node-of-a", "m"), func(q *webhook.Question) { q.Deadline = deadline })
	stays := func(p *workload.Pod) { p.Stays = true }
	want := workload.Request{
		Pod: member("a"), Deadline: deadline, Last: true,
		Peers: []workload.Pod{member("b", stays), member("c", on("m")), member("d", on(""))},
	}
	if diff := cmp.Diff(want, f.calls[0].request); diff != "" {
		t.Error(diff)
	}
	f.ask("a", leaving("node-of-b"))
	want.Pod, want.Peers, want.Last, want.Deadline = member("a", stays), []workload.Pod{
		member("b"), member("c", on("m"), stays), member("d", on("")),
	}, false, time.Time{}
	if diff := cmp.Diff(want, f.calls[1].request); diff != "" {
		t.Errorf("after the next question:\n%s", diff)
	}
}

// TestLeavingExpires: the word of an agent that is silent is not taken for ever.
func TestLeavingExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"))
		f.surges["redis"] = 1000
		f.start()
		f.ask("a", leaving("node-of-b"))
		elapse(time.Hour)
		staysAfter := time.Duration(0)
		for _, c := range f.at("end") {
			b := slices.IndexFunc(c.request.Peers, func(p workload.Pod) bool { return p.Name == "b" })
			if c.request.Peers[b].Stays {
				staysAfter = c.after
				break
			}
		}
		if staysAfter < leavingTimeout || staysAfter > leavingTimeout+2*longestPause {
			t.Errorf("the node stays after %v", staysAfter)
		}
	})
}

// TestOnePodIsAsked at a time. Who waits too long for its turn is to ask again soon.
func TestOnePodIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"), member("c"))
		f.release = slow(turnTimeout-time.Second/2, handover.Answer{Go: true, Outcome: handover.HandedOver})
		var all sync.WaitGroup
		var mu sync.Mutex
		replies, took := map[int][]webhook.Reply{}, map[int][]time.Duration{}
		for _, pod := range []string{"a", "b", "c"} {
			all.Go(func() {
				start := time.Now()
				status, reply := f.ask(pod)
				mu.Lock()
				defer mu.Unlock()
				replies[status], took[status] = append(replies[status], reply), append(took[status], time.Since(start))
			})
		}
		all.Wait()
		behind := webhook.Reply{Outcome: handover.GroupBehind, Message: "another pod is asked", RetryAfter: 0.5}
		if diff := cmp.Diff([]webhook.Reply{behind}, replies[202]); diff != "" || len(replies[200]) != 2 {
			t.Errorf("got %+v", replies)
		}
		took200 := []time.Duration{turnTimeout - time.Second/2, 2*turnTimeout - time.Second}
		if took[202][0] != turnTimeout || !slices.Equal(took[200], took200) {
			t.Errorf("it took %v", took)
		}
		if len(f.done("release")) != 2 || f.most != 1 {
			t.Errorf("%d calls at once: %v", f.most, f.calls)
		}
	})
}

// TestAnswersComeInTime, also after the longest wait for a turn: the agent does not wait longer than package webhook does.
func TestAnswersComeInTime(t *testing.T) {
	const agentWaits = 25 * time.Second
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"))
		f.release = func(ctx context.Context, r workload.Request) (handover.Answer, error) {
			if r.Pod.Name == "a" {
				<-time.After(turnTimeout - time.Millisecond)
			} else {
				<-ctx.Done()
			}
			return handover.Answer{Go: true, Outcome: handover.HandedOver}, nil
		}
		var all sync.WaitGroup
		all.Go(func() { f.ask("a") })
		synctest.Wait()
		start := time.Now()
		if status, got := f.ask("b"); status != 200 || time.Since(start) >= agentWaits || time.Since(start) < callTimeout {
			t.Errorf("got %d %+v after %v", status, got, time.Since(start))
		}
		all.Wait()
	})
}

// TestTooManyQuestions are answered at once, without waiting.
func TestTooManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"))
		f.release = slow(time.Minute, handover.Answer{Go: true, Outcome: handover.HandedOver})
		var all sync.WaitGroup
		for range maxWaiting {
			all.Go(func() { f.ask("a") })
		}
		synctest.Wait()
		start := time.Now()
		if status, got := f.ask("a"); status != 503 || got.Message != "too many requests wait" || time.Since(start) > 0 {
			t.Errorf("got %d %+v after %v", status, got, time.Since(start))
		}
		all.Wait()
		f.release = always(handover.Answer{Go: true, Outcome: handover.HandedOver})
		if status, got := f.ask("a"); status != 200 {
			t.Errorf("later: got %d %+v", status, got)
		}
	})
}

// TestClientGoesAway: what has begun is carried through to its end, and what has not begun does not begin.
func TestClientGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"), member("b"))
		var ended error
		f.release = func(ctx context.Context, _ workload.Request) (handover.Answer, error) {
			<-time.After(10 * time.Second)
			ended = ctx.Err()
			return handover.Answer{Go: true, Outcome: handover.HandedOver}, nil
		}
		gone, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { f.askUntil(gone, "a") })
		synctest.Wait()
		start := time.Now()
		f.askUntil(gone, "b")
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the question of who has gone away was kept for %v", took)
		}
		all.Wait()
		if want := []string{"release a"}; ended != nil || !slices.Equal(f.done(""), want) {
			t.Errorf("the context of the call has ended: %v; calls %q, want %q", ended, f.done(""), want)
		}
		if !slices.Contains(f.told, "a handed-over after 10s") {
			t.Errorf("the Observer was told %q", f.told)
		}
	})
}

// TestCallEnds: a call has a limit, after which the next pod has its turn.
func TestCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, member("a"))
		f.release = func(ctx context.Context, _ workload.Request) (handover.Answer, error) {
			<-ctx.Done()
			return handover.Answer{}, ctx.Err()
		}
		start := time.Now()
		if status, got := f.ask("a"); status != 503 || time.Since(start) != callTimeout {
			t.Errorf("got %d %+v after %v", status, got, time.Since(start))
		}
		f.release = always(handover.Answer{Go: true, Outcome: handover.NotLeading})
		if status, got := f.ask("a"); status != 200 {
			t.Errorf("got %d %+v", status, got)
		}
	})
}

// TestAgentGetsTheAnswer: what the Releaser says arrives at the agent.
func TestAgentGetsTheAnswer(t *testing.T) {
	f := newFixture(t, member("a"))
	web := httptest.NewServer(f)
	t.Cleanup(web.Close)
	address := netip.MustParseAddrPort(web.Listener.Addr().String())
	asks := webhook.New(fake.NewClientset(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "asked"},
		Spec: corev1.ServiceSpec{
			ClusterIP: address.Addr().String(), Ports: []corev1.ServicePort{{Port: int32(address.Port())}},
		},
	}))
	request := handover.Request{Pod: handover.Pod{
		Namespace: "shop", Name: "a", UID: "uid-a", Annotations: member("a").Annotations,
	}}
	for _, want := range []handover.Answer{
		{Go: true, Outcome: handover.HandedOver, Message: "b leads instead of a", Leader: "b"},
		{Go: true, Outcome: handover.NotLeading},
		{Go: true, Outcome: handover.NoReplica, Message: "no replica"},
		{Go: true, Outcome: handover.Invalid, Message: `node-drainer.io/hand-over-port is "redsi"`},
		{Outcome: handover.HandingOver, Message: "a executes FAILOVER", Leader: "b", Again: 500 * time.Millisecond},
		{Outcome: handover.GroupBehind, Message: "b is not in sync", Leader: "c", Again: 1500 * time.Millisecond},
		{Outcome: handover.GroupBehind},
		{Outcome: handover.Refused, Message: "wrong password", Leader: "b"},
		{Outcome: handover.Refused},
	} {
		f.release = always(want)
		got, err := asks.Release(t.Context(), request)
		if want.Outcome == handover.Refused {
			want.Message = strings.TrimSuffix("the Service answers 409 Conflict: "+want.Message, ": ")
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", want.Outcome, err, diff)
		}
	}
}
