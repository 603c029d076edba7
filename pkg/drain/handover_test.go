package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// asker is a Releaser that answers as a test says, and records the calls.
type asker struct {
	answer func(context.Context, handover.Request) (handover.Answer, error)

	mu             sync.Mutex
	calls          []string // PODS, and "at last"
	inFlight, most int
}

func (a *asker) Release(ctx context.Context, r handover.Request) (handover.Answer, error) {
	a.mu.Lock()
	call := r.Pod.Name
	if r.Last {
		call += " at last"
	}
	a.calls = append(a.calls, call)
	a.inFlight++
	a.most = max(a.most, a.inFlight)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.inFlight--
	}()
	return a.answer(ctx, r)
}

func (a *asker) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// always answers the same, after a second.
func always(answer handover.Answer) func(context.Context, handover.Request) (handover.Answer, error) {
	return func(context.Context, handover.Request) (handover.Answer, error) {
		<-time.After(time.Second)
		return answer, nil
	}
}

// startAsking returns a cluster whose pods of the kind test are asked as answer says.
func startAsking(
	t *testing.T, answer func(context.Context, handover.Request) (handover.Answer, error), pods ...*corev1.Pod,
) (*cluster, *asker) {
	t.Helper()
	a, c := &asker{answer: answer}, newCluster(t)
	c.kinds = map[string]handover.Releaser{"test": a, handover.GateKind: handover.Gate{}}
	c.leaving = []string{"n"}
	for _, p := range pods {
		c.add(p)
	}
	c.start(withConfig(func(cfg *Config) { cfg.HandOverTimeout = time.Minute }))
	return c, a
}

// memberPod is a pod of a kind of workload.
func memberPod(name, kind string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := runningPod(name)
	p.Annotations, p.Labels = map[string]string{handover.KindAnnotation: kind}, nil
	for _, change := range changes {
		change(p)
	}
	return p
}

// isStopping reports whether any pod has been told to stop.
func (c *cluster) isStopping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods {
		if p.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// TestPodIsAskedBeforeItIsEvicted, with what the agent knows of it, and without any request to the API server.
func TestPodIsAskedBeforeItIsEvicted(t *testing.T) {
	virtual(t, "the question", func(t *testing.T) {
		var got handover.Request
		c, _ := startAsking(t, func(_ context.Context, r handover.Request) (handover.Answer, error) {
			got = r
			return handover.Answer{Go: true, Outcome: handover.HandedOver, Leader: "b"}, nil
		}, memberPod("a", "test", func(p *corev1.Pod) {
			p.Annotations[handover.ServiceAnnotation], p.Annotations["other"] = "asked", "x"
		}), memberPod("b", "test", on("m")))
		c.leaving = []string{"n", "o"}
		end := time.Now().Add(time.Hour)
		c.expectDrained(c.drain("n", time.Hour), 1)
		c.expectRequests("evict n/a")
		c.expect(t, "hand-over of a: handed-over b")
		want := map[string]string{handover.KindAnnotation: "test", handover.ServiceAnnotation: "asked"}
		if p := got.Pod; p.Namespace != "x" || p.Name != "a" || p.UID != "uid-a" || p.Node != "n" ||
			!maps.Equal(p.Annotations, want) {
			t.Errorf("the pod is %+v", p)
		}
		if !slices.Equal(got.Leaving, c.leaving) || got.Last || !got.Deadline.Equal(end) {
			t.Errorf("asked %+v, want a deadline at %v", got, end)
		}
	})
	virtual(t, "no list of the others", func(t *testing.T) {
		c, _ := startAsking(t, always(handover.Answer{Go: true, Outcome: handover.NotLeading}), memberPod("a", "test"))
		plain := startCluster(t, defaults, runningPod("a"))
		c.expectDrained(c.drain("n", time.Hour), 1)
		plain.expectDrained(plain.drain("n", time.Hour), 1)
		if c.reads != plain.reads {
			t.Errorf("%d reads, and %d of a pod without an annotation", c.reads, plain.reads)
		}
	})
}

// TestHandOverOfSeveralCalls expects that a hand-over is reported whose group was not whole when the leadership moved.
func TestHandOverOfSeveralCalls(t *testing.T) {
	virtual(t, "the group is whole later", func(t *testing.T) {
		answers := []handover.Answer{
			{Outcome: handover.GroupBehind, Leader: "b"}, {Go: true, Outcome: handover.NotLeading},
		}
		c, _ := startAsking(t, func(context.Context, handover.Request) (answer handover.Answer, err error) {
			answer, answers = answers[0], answers[1:]
			return answer, nil
		}, memberPod("a", "test"))
		c.expectDrained(c.drain("n", time.Hour), 1)
		c.expect(t, "hand-over of a: handed-over b")
	})
}

// TestPodsThatAreNotAsked cause no call: those without the annotation, and all if DRAIN_HAND_OVER_TIMEOUT is 0.
func TestPodsThatAreNotAsked(t *testing.T) {
	virtual(t, "no annotation", func(t *testing.T) {
		c, a := startAsking(t, always(handover.Answer{}), runningPod("a"), memberPod("b", "test", on("m")))
		plain := startCluster(t, defaults, runningPod("a"))
		c.expectDrained(c.drain("n", time.Hour), 1)
		plain.expectDrained(plain.drain("n", time.Hour), 1)
		if a.count() > 0 || c.reads != plain.reads {
			t.Errorf("%d calls and %d reads, want none and %d", a.count(), c.reads, plain.reads)
		}
	})
	virtual(t, "no timeout", func(t *testing.T) {
		c := newCluster(t, memberPod("a", "test"))
		a := &asker{answer: always(handover.Answer{})}
		c.kinds = map[string]handover.Releaser{"test": a}
		c.start(defaults)
		c.expectDrained(c.drain("n", time.Hour), 1)
		if a.count() > 0 || c.countRecords("hand-over") > 0 {
			t.Errorf("%d calls, %q", a.count(), c.log)
		}
	})
	virtual(t, "an unknown kind", func(t *testing.T) {
		c, a := startAsking(t, always(handover.Answer{}), memberPod("a", "postgres"))
		if took := c.expectDrained(c.drain("n", time.Hour), 1).Took; took > 20*time.Second || a.count() > 0 {
			t.Errorf("%d calls, and it took %v", a.count(), took)
		}
		c.expect(t, `hand-over of a: invalid  the annotation node-drainer.io/hand-over is "postgres": must be gate or test`)
	})
	virtual(t, "a pod that does not run", func(t *testing.T) {
		c, a := startAsking(t, always(handover.Answer{}),
			memberPod("a", "test", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }))
		c.expectDrained(c.drain("n", time.Hour), 1)
		if a.count() > 0 {
			t.Errorf("%d calls", a.count())
		}
	})
	virtual(t, "a dry run", func(t *testing.T) {
		c, a := startAsking(t, always(handover.Answer{}), memberPod("a", "test"))
		target := c.target("n", time.Hour)
		target.DryRun = true
		if _, err := c.drainTarget(c.ctx, target)(); err != nil || a.count() > 0 {
			t.Errorf("%d calls, %v", a.count(), err)
		}
		c.expect(t, "1 of 1 left [1 hand over their leadership first]")
	})
}

// TestOnePodOfANamespaceIsAsked at a time, over all nodes, and evicted before the next is asked.
func TestOnePodOfANamespaceIsAsked(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var c *cluster
		var a *asker
		c, a = startAsking(t, func(context.Context, handover.Request) (handover.Answer, error) {
			<-time.After(time.Second)
			if c.isStopping() {
				return handover.Answer{Outcome: handover.GroupBehind, Message: "one is missing"}, nil
			}
			return handover.Answer{Go: true, Outcome: handover.NotLeading}, nil
		})
		c.answers = constant(2 * time.Second)
		var drains []func() (Report, error)
		for i := range 4 {
			node := fmt.Sprint("node-", i)
			c.add(memberPod("a"+node, "test", on(node)))
			c.add(memberPod("b"+node, "test", on(node)))
			drains = append(drains, c.drain(node, 2*time.Hour))
		}
		for _, wait := range drains {
			c.expectDrained(wait, 2)
		}
		if a.most != 1 {
			t.Errorf("%d calls were in flight at once", a.most)
		}
		for i, r := range c.requests[1:] {
			if apart := r.after - c.requests[i].after; apart < 10*time.Second {
				t.Errorf("%s was evicted %v after %s, whose grace period is 10 s", r.pod, apart, c.requests[i].pod)
			}
		}
		c.expect(t, "group-behind one is missing", "wait for other members of their group")
	})
	virtual(t, "one that does not run yet is not evicted meanwhile", func(t *testing.T) {
		c, a := startAsking(t, always(handover.Answer{Go: true}), memberPod("a", "test"),
			memberPod("b", "test", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }))
		c.expectDrained(c.drain("n", time.Hour), 2)
		first, second := c.requests[0], c.requests[1]
		if a.count() != 1 || first.pod != "a" || second.pod != "b" || second.after < first.after {
			t.Errorf("%d calls, %+v", a.count(), c.requests)
		}
	})
}

// TestHandOverEndsInTime: whatever the workload answers, the pod is evicted by then, and the Observer is told why.
func TestHandOverEndsInTime(t *testing.T) {
	silent := func(ctx context.Context, _ handover.Request) (handover.Answer, error) {
		<-ctx.Done()
		return handover.Answer{}, ctx.Err()
	}
	failing := func(context.Context, handover.Request) (handover.Answer, error) {
		return handover.Answer{}, errors.New("connection refused")
	}
	calls := 0
	silentLater := func(ctx context.Context, r handover.Request) (handover.Answer, error) {
		if calls++; calls > 1 {
			return silent(ctx, r)
		}
		return handover.Answer{Outcome: handover.Refused, Message: "wrong password"}, nil
	}
	const spot, hour = 2 * time.Minute, time.Hour
	for _, tt := range []struct {
		name      string
		answer    func(context.Context, handover.Request) (handover.Answer, error)
		window    time.Duration
		from, to  time.Duration // when it is evicted
		want      string
		lastCalls int
	}{
		{"no replica", always(handover.Answer{Go: true, Outcome: handover.NoReplica}), hour, time.Second, 2 * time.Second, "no-replica", 0},
		{"wrong annotation", always(handover.Answer{Go: true, Outcome: handover.Invalid}), hour, time.Second, 2 * time.Second, "invalid", 0},
		{"refused", always(handover.Answer{Outcome: handover.Refused}), hour, time.Minute, 62 * time.Second, "refused", 0},
		{"not yet", always(handover.Answer{Outcome: handover.HandingOver}), hour, time.Minute, 62 * time.Second, "handing-over", 0},
		{"no answer", silent, hour, time.Minute, 62 * time.Second, "no-answer", 0},
		{"the time is up during a call", silentLater, hour, time.Minute, 62 * time.Second, "refused  wrong password", 0},
		{"an error", failing, hour, time.Minute, 62 * time.Second, "no-answer  connection refused", 0},
		{"no answer, Spot", silent, spot, time.Minute, 62 * time.Second, "no-answer", 0},
		{"a group that is behind", always(handover.Answer{Outcome: handover.GroupBehind}), hour, 30 * time.Minute, 31 * time.Minute, "group-behind", 1},
		{"a group that is behind, Spot", always(handover.Answer{Outcome: handover.GroupBehind}), spot, time.Minute, 62 * time.Second, "group-behind", 1},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c, a := startAsking(t, tt.answer, memberPod("a", "test"))
			c.expectDrained(c.drain("n", tt.window), 1)
			c.expectRequests("evict n/a")
			if after := c.requests[0].after; after < tt.from || after > tt.to {
				t.Errorf("evicted after %v, want %v to %v", after, tt.from, tt.to)
			}
			last := 0
			for _, call := range a.calls {
				if call == "a at last" {
					last++
				}
			}
			if last != tt.lastCalls {
				t.Errorf("%d last calls: %q", last, a.calls)
			}
			if c.countRecords("hand-over of a: "+tt.want) != 1 || c.countRecords("hand-over of a") != 1 {
				t.Errorf("want one record with %q, got %q", tt.want, c.log)
			}
		})
	}
}

// TestLastCallsDelayNoDeletion: a pod that its budget blocks is asked for the last time ten seconds before it is deleted,
// and deleted at the same instant as without that.
func TestLastCallsDelayNoDeletion(t *testing.T) {
	for _, answer := range []func(context.Context, handover.Request) (handover.Answer, error){
		always(handover.Answer{Go: true, Outcome: handover.HandedOver}),
		func(ctx context.Context, _ handover.Request) (handover.Answer, error) {
			<-ctx.Done()
			return handover.Answer{}, ctx.Err()
		},
		func(context.Context, handover.Request) (handover.Answer, error) { // ignores ctx
			<-time.After(20 * time.Second)
			return handover.Answer{Go: true}, nil
		},
	} {
		virtual(t, "", func(t *testing.T) {
			c, a := startAsking(t, answer)
			c.addBudget("full", 1, 0)
			c.mu.Lock()
			c.publish("", watch.Event{Type: watch.Added, Object: c.apps["full"].pdb})
			c.mu.Unlock()
			synctest.Wait()
			c.addPod("n", "a", "full", func(p *corev1.Pod) { p.Annotations = map[string]string{handover.KindAnnotation: "test"} })
			report, err := c.drain("n", 2*time.Minute)()
			if err != nil || report.Forced != 1 || len(report.Left) > 0 {
				t.Errorf("got %+v, %v", report, err)
			}
			last := c.requests[len(c.requests)-1]
			if last.verb != "delete" || last.after.Round(time.Second) != 110*time.Second {
				t.Errorf("the last request is %+v", last)
			}
			if !slices.Equal(a.calls, []string{"a at last"}) {
				t.Errorf("calls: %q", a.calls)
			}
		})
	}
}

// TestTighterDeadlineEndsCalls: a call in flight is decided again.
func TestTighterDeadlineEndsCalls(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		c, _ := startAsking(t, func(ctx context.Context, _ handover.Request) (handover.Answer, error) {
			<-ctx.Done()
			return handover.Answer{}, ctx.Err()
		}, memberPod("a", "test"))
		target, tighter := c.target("n", time.Hour), make(chan time.Time, 1)
		target.Tighter = tighter
		wait := c.drainTarget(c.ctx, target)
		elapse(30 * time.Second)
		tighter <- time.Now().Add(30 * time.Second)
		report, err := wait()
		if err != nil || report.Took > time.Minute || len(report.Left)+report.Forced > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

// TestGateOpensByItsAnnotation, at once: the watch of pods wakes the drain.
func TestGateOpensByItsAnnotation(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		pod := memberPod("a", handover.GateKind)
		c, _ := startAsking(t, always(handover.Answer{}), pod)
		wait := c.drain("n", time.Hour)
		elapse(31 * time.Second)
		c.expectRequests()
		opened := pod.DeepCopy()
		opened.Annotations[handover.HandedOverAnnotation] = ""
		c.mu.Lock()
		c.store(watch.Modified, opened)
		c.mu.Unlock()
		c.expectDrained(wait, 1)
		if after := c.requests[0].after; after.Round(time.Second/10) != 31*time.Second {
			t.Errorf("evicted after %v, and the annotation came after 31 s", after)
		}
		c.expect(t, "hand-over of a: handed-over", "put off a: handing-over the pod does not have the annotation node-drainer.io/handed-over yet")
	})
}

// TestLongMessagesAreCut: an Event takes a kilobyte.
func TestLongMessagesAreCut(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		long := strings.Repeat("ä", 5_000)
		c, _ := startAsking(t, func(context.Context, handover.Request) (handover.Answer, error) {
			return handover.Answer{}, errors.New(long)
		}, memberPod("a", "test"))
		c.expectDrained(c.drain("n", time.Hour), 1)
		c.expect(t, "hand-over of a: no-answer  ä")
		if c.countRecords(long[:402]) > 0 {
			t.Error("a message is long")
		}
	})
}

// TestMessagesAreClean: a message quotes what pods and their Services write, and is shown to people.
func TestMessagesAreClean(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		c, _ := startAsking(t, func(context.Context, handover.Request) (handover.Answer, error) {
			return handover.Answer{}, errors.New("no \x1b]0;Service\a\u202e\n\u009bhere")
		}, memberPod("a", "test"))
		c.expectDrained(c.drain("n", time.Hour), 1)
		c.expect(t, "hand-over of a: no-answer  no ]0;Service here")
	})
}

// TestAnswersAreNotStored: a pod whose eviction is refused after its release is asked again.
func TestAnswersAreNotStored(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		c, a := startAsking(t, always(handover.Answer{Go: true, Outcome: handover.NotLeading}), memberPod("a", "test"))
		refusals := 2
		c.answer = func(string) error {
			if refusals--; refusals >= 0 {
				return errUnavailable
			}
			return nil
		}
		c.expectDrained(c.drain("n", time.Hour), 1)
		if n := a.count(); n != 3 {
			t.Errorf("%d calls for three evictions", n)
		}
	})
}
