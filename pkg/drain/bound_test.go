package drain

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDecideEndsAtItsBound: 25 s after the deadline, or after the last grace period that was granted before it,
// a drain is over, whatever is left.
func TestDecideEndsAtItsBound(t *testing.T) {
	began := func(d time.Duration) func(*State) { return func(s *State) { s.Started = at(d) } }
	granted := func(s *State) { s.Started, s.GrantedUntil = t0, at(15*m) }
	failing := func(p *Pod) { p.Try = Try{Last: Deferred, Next: at(10*m + 35*s), Failures: 3} }
	given{state: began(0)}.expect(t, "before it pods are deleted", 10*m+24*s, "evict a in 1s; again 10m25s", pod("a"))
	given{state: began(0)}.expect(t, "at it nothing is sent", 10*m+25*s, "wait a backing-off; done", pod("a"))
	given{state: began(0)}.expect(t, "a request without an answer", 10*m+25*s, "wait a requested; done", pod("a", sent))
	given{state: began(0)}.expect(t, "a pause that is longer", 10*m+24*s, "wait a backing-off; again 10m25s", pod("a", failing))
	given{state: granted}.expect(t, "a grace period that the drain has granted", 14*m, "delete a in 1s; again 15m25s", pod("a", terminating(15*m)))
	given{state: granted}.expect(t, "and no longer", 15*m+25*s, "wait b backing-off; done", pod("b"))
	given{state: began(20 * m)}.expect(t, "a drain that begins late", 20*m+24*s, "evict a in 1s; again 20m25s", pod("a"))
}

// TestDecideDeadKubelets: nothing counts a grace period on a node whose kubelet is dead.
func TestDecideDeadKubelets(t *testing.T) {
	dead := func(since time.Duration) func(*State) {
		return func(s *State) { s.Unreachable, s.DeadSince = true, at(since) }
	}
	long := func(p *Pod) { p.Grace, p.GraceEndsAt, p.DeletedAt = 2*time.Hour, at(2*time.Hour), t0 }
	given{state: dead(0)}.expect(t, "30 s from the deletion", 10*s, "wait a terminating; again 32s", pod("a", long))
	given{state: dead(0)}.expect(t, "and no longer", 32*s, "wait a terminating; done", pod("a", long))
	given{state: dead(m)}.expect(t, "a kubelet that died later", m+10*s, "wait a terminating; again 1m32s", pod("a", long))
	given{state: dead(0)}.expect(t, "a shorter grace period", 12*s, "wait a terminating; done", pod("a", terminating(10*s), func(p *Pod) { p.DeletedAt = t0 }))
	given{state: func(s *State) { s.Unreachable = true }}.expect(t, "a kubelet that is not ready may count it",
		m, "wait a terminating; again 9m59s", pod("a", long))
}

// TestDecideReturnedPods: pods that their controllers have put back leave after the others, and hold nothing up.
func TestDecideReturnedPods(t *testing.T) {
	back := func(p *Pod) { p.Returned, p.Brief, p.Tier = true, true, 3 }
	daemon := func(p *Pod) { p.Brief, p.Tier = true, 4 }
	since := func(tier int, d time.Duration) func(*State) {
		return func(s *State) { s.TierSince = map[int]time.Time{tier: at(d)} }
	}
	given{}.expect(t, "it stays until the others have left", 0, "evict a; wait b later-tier; again 9m30s", pod("a"), pod("b", back))
	given{}.expect(t, "then it is told to stop", m, "evict b", pod("b", back))
	given{state: since(3, m)}.expect(t, "a budget holds it", m+29*s, "wait b blocked-by-budget x/b; again 1m30s", guarded("b", back))
	given{state: since(3, m)}.expect(t, "for half a minute", m+30*s, "delete b in 30s", guarded("b", back))
	given{state: since(3, m), leave: true}.expect(t, "or is left", m+30*s, "wait b blocked-by-budget x/b; done", guarded("b", back))
	given{state: since(3, m)}.expect(t, "a webhook that denies its deletion holds nothing up",
		m+31*s, "wait b backing-off; done", pod("b", back, tried(Denied, 5*m)))
	given{state: since(3, m)}.expect(t, "nor does an API server that does not delete it",
		2*m+30*s, "wait b backing-off; done", pod("b", back, tried(Deferred, 5*m)))
	given{state: since(3, m)}.expect(t, "it has its grace period", 2*m, "wait b terminating; again 2m25s", pod("b", back, terminating(2*m+30*s)))
	given{state: since(3, m)}.expect(t, "and no more", 2*m+32*s, "wait b terminating; done", pod("b", back, terminating(2*m+30*s)))
	given{}.expect(t, "near the deadline it is told to stop although others are left",
		9*m+30*s, "evict a in 30s, b in 30s", pod("a"), pod("b", back))
	given{state: since(4, m)}.expect(t, "a DaemonSet's pod that does not return is held for half a minute too",
		m+30*s, "delete d in 30s", guarded("d", daemon))
	given{}.expect(t, "what its controller puts there afterwards stays", m, "done", pod("c", func(p *Pod) { p.StayReason = PutBack }))
}

// replaceOnNode has a controller put a pod on the node in place of each one that is told to stop, and returns how often.
func replaceOnNode(c *cluster, change func(*corev1.Pod)) *int {
	n := new(int)
	c.putBack = func(p *corev1.Pod) *corev1.Pod {
		if p.Labels["app"] != "back" {
			return nil
		}
		*n++
		next := runningPod(fmt.Sprint("back-", *n))
		own(next)
		change(next)
		return next
	}
	return n
}

// own gives a pod a controller that puts it back.
func own(p *corev1.Pod) {
	p.Labels = map[string]string{"app": "back"}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "back", UID: "rs", Controller: new(true)}}
}

func tolerant(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// toleratesCordon has a pod tolerate what a DaemonSet controller has its pods tolerate, and not our taint.
func toleratesCordon(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
	}}
}

// named has the creator of a pod name its node, as the API server records it.
func named(p *corev1.Pod) {
	p.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{},"f:nodeName":{}}}`),
	}}
}

// TestLatePodsOfOneController: pods that a scheduler binds before it has seen the cordon are evicted until it has,
// however fast they come back.
func TestLatePodsOfOneController(t *testing.T) {
	for _, late := range []time.Duration{3 * time.Second, 12 * time.Second, time.Minute} {
		virtual(t, late.String(), func(t *testing.T) {
			c := newCluster(t)
			n := replaceOnNode(c, func(*corev1.Pod) {})
			back := c.putBack
			c.putBack = func(p *corev1.Pod) *corev1.Pod {
				if time.Since(c.since) > late {
					return nil
				}
				return back(p)
			}
			c.addPod("n", "back-0", "", own)
			c.start(defaults)
			report, err := c.drain("n", time.Hour)()
			if err != nil || len(report.Left)+len(report.Returned)+report.Forced > 0 || report.Took > 2*time.Minute || *n > 15 {
				t.Errorf("got %+v, %v after %d pods, %q", report, err, *n, c.requestLog())
			}
		})
	}
}

// TestPodsThatReturnToAnotherNode: nothing keeps pods away from a Node that has registered again, so that a drain does not
// end with them, although the watch of the Nodes is behind. Of a Node that is gone they are ignored.
func TestPodsThatReturnToAnotherNode(t *testing.T) {
	for _, tt := range []struct {
		uid  string // of the Node that the API server has; empty if it has none
		want error
	}{{"uid-n", nil}, {"uid-again", ErrReplaced}, {"", nil}} {
		virtual(t, "the Node is "+tt.uid, func(t *testing.T) {
			c := newCluster(t)
			replaceOnNode(c, tolerant)
			c.addPod("n", "back-0", "", own)
			if tt.uid != "" {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: types.UID(tt.uid)}}
				if err := c.fake.Tracker().Add(n); err != nil {
					t.Fatal(err)
				}
			}
			c.start(defaults)
			report, err := c.drain("n", time.Hour)()
			if !errors.Is(err, tt.want) || report.Took > 3*time.Minute || (err == nil) != (len(report.Returned) == 1) {
				t.Errorf("got %+v, %v", report, err)
			}
		})
	}
}

// TestPodsThatReturn: a controller that puts its pods back on the node is asked once, and holds nothing up.
func TestPodsThatReturn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		effect corev1.TaintEffect
		change func(*corev1.Pod)
	}{
		{"they tolerate every taint", corev1.TaintEffectNoSchedule, tolerant},
		{"they name the node", corev1.TaintEffectNoSchedule, named},
		{"they have opted out meanwhile", corev1.TaintEffectNoSchedule, func(p *corev1.Pod) {
			tolerant(p)
			p.Annotations = map[string]string{DrainAnnotation: Wait}
		}},
		{"they tolerate the cordon, and no taint keeps pods away", corev1.TaintEffectPreferNoSchedule, toleratesCordon},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c := newCluster(t)
			c.taint.Effect = tt.effect
			replaceOnNode(c, tt.change)
			c.addPod("n", "job", "", gracePeriod(60))
			c.addPod("n", "back-0", "", own, func(p *corev1.Pod) {
				if tt.name == "they tolerate every taint" {
					tolerant(p)
				}
			})
			c.start(defaults)
			report, err := c.drain("n", time.Hour)()
			if err != nil || len(report.Left)+report.Forced > 0 || report.Took > 2*time.Minute {
				t.Errorf("got %+v, %v", report, err)
			}
			if diff := cmp.Diff([]string{"x/back-2"}, report.Returned); diff != "" {
				t.Error(diff)
			}
			log := c.requestLog()
			slices.Sort(log)
			if diff := cmp.Diff([]string{"evict n/back-0", "evict n/back-1", "evict n/job"}, log); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			// A repeated drain does not ask again.
			before := len(c.requestLog())
			target := c.target("n", time.Hour)
			target.Since, target.Earlier = c.since, report.Owners
			again, err := c.drainTarget(c.ctx, target)()
			if err != nil || len(again.Left) > 0 || len(c.requestLog()) != before {
				t.Errorf("repeated: got %+v, %v, and requests %q", again, err, c.requestLog()[before:])
			}
		})
	}
}

// TestEvictionsOfOneControllerAreBounded: whatever a controller does until the deadline, it is asked for as many pods as
// it had on the node, as many late ones, and those that it has put back at the end.
func TestEvictionsOfOneControllerAreBounded(t *testing.T) {
	for _, change := range []func(*corev1.Pod){tolerant, func(*corev1.Pod) {}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, runningPod("a"), newPDB(0))
			n := replaceOnNode(c, change)
			for i := range 3 {
				c.addPod("n", fmt.Sprint("first-", i), "", own, change)
			}
			c.start(defaults)
			report, err := c.drain("n", time.Minute)()
			if err != nil || len(report.Left) > 0 || report.Took > 70*time.Second || *n > 27+lateMargin {
				t.Errorf("got %+v, %v after %d pods, %q", report, err, *n, c.requestLog())
			}
		})
	}
}

// TestReturnedPodsOfANodeThatWasNotCordoned: while the API server did not answer, the node could not be cordoned. What the
// scheduler binds to it afterwards has not come back in spite of a cordon.
func TestReturnedPodsOfANodeThatWasNotCordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		n := replaceOnNode(c, func(*corev1.Pod) {})
		putBack := c.putBack
		c.putBack = func(p *corev1.Pod) *corev1.Pod {
			if *n == 8 { // the node is cordoned by then
				return nil
			}
			return putBack(p)
		}
		c.addPod("n", "back-0", "", own)
		c.untainted.Store(true)
		c.start(defaults)
		target := c.target("n", time.Hour)
		target.Since, target.Untainted = time.Now().Add(-15*time.Minute), true
		report, err := c.drainTarget(c.ctx, target)()
		if err != nil || len(report.Left)+len(report.Returned) > 0 || len(c.requestLog()) != 9 {
			t.Errorf("got %+v, %v, and requests %q", report, err, c.requestLog())
		}
	})
}

// TestReturnedPodsInTheSecondHalf: pods that do not leave in time are evicted at once in the second half of a drain, so that
// those which come then have returned, also to a node that could not be cordoned.
func TestReturnedPodsInTheSecondHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		n := replaceOnNode(c, gracePeriod(3600))
		c.addPod("n", "back-0", "", own, gracePeriod(3600))
		c.untainted.Store(true)
		c.start(defaults)
		target := c.target("n", 10*time.Minute)
		target.Since, target.Untainted = time.Now().Add(-15*time.Minute), true
		report, err := c.drainTarget(c.ctx, target)()
		if err != nil || len(report.Returned) == 0 || *n > 10 {
			t.Errorf("got %+v, %v after %d pods", report, err, *n)
		}
	})
}

// TestDrainsEnd: a drain ends 25 s after its deadline at the latest, whatever webhooks, the API server and pods
// do, and names what is left and why.
func TestDrainsEnd(t *testing.T) {
	hang := func(verbs string, d time.Duration) func(*cluster) {
		return func(c *cluster) {
			c.webhooks = func(verb string) time.Duration {
				if strings.Contains(verbs, verb) {
					return d
				}
				return 0
			}
		}
	}
	deny := func(code int32) func(*cluster) {
		return func(c *cluster) { c.answer = func(string) error { return deniedBy("guard.example.com", code) } }
	}
	blocked := WaitCount{Reason: RefusedByWebhook, Webhook: "guard.example.com", Pods: 1}
	type end struct {
		name  string
		setUp func(*cluster)
		left  bool
		why   []WaitCount
	}
	tests := []end{
		{"a webhook that takes 20 s", hang("evict delete", 20*time.Second), false, nil},
		{"webhooks that take 50 s together", hang("evict delete", 50*time.Second), false, nil},
		{"a webhook that takes 20 s for deletions", func(c *cluster) {
			hang("delete", 20*time.Second)(c)
			c.answer = func(verb string) error {
				if verb == "evict" {
					return deniedBy("guard.example.com", http.StatusForbidden)
				}
				return nil
			}
		}, false, nil},
		{"a request without an answer", hang("evict delete", time.Hour), true, []WaitCount{{Reason: Requested, Pods: 1}}},
		{"an API server that limits requests", func(c *cluster) {
			c.answer = func(string) error { return apierrors.NewTooManyRequests("busy", 1) }
		}, true, []WaitCount{{Reason: BackingOff, Pods: 1}}},
		{"a pod that never ends", func(c *cluster) { c.podsNeverEnd = true }, true, []WaitCount{{Reason: Terminating, Pods: 1}}},
	}
	for _, code := range []int32{403, 404, 409, 429, 500, 503} {
		tests = append(tests, end{fmt.Sprint("a webhook that denies with ", code), deny(code), true, []WaitCount{blocked}})
	}
	for _, tt := range tests {
		virtual(t, tt.name, func(t *testing.T) {
			c := newCluster(t, runningPod("a"))
			tt.setUp(c)
			c.start(withConfig(func(c *Config) { c.StuckAfter = 0 }))
			report, err := c.drain("n", 2*time.Minute)()
			if err != nil || report.Took > 2*time.Minute+endMargin || report.Unverified || (len(report.Left) > 0) != tt.left {
				t.Errorf("got %+v, %v", report, err)
			}
			if diff := cmp.Diff(tt.why, report.Why); diff != "" {
				t.Error(diff)
			}
			if report.Forced > 0 && tt.left && tt.name != "a pod that never ends" {
				t.Errorf("%d were counted as forced", report.Forced)
			}
		})
	}
}

// TestDrainEndsWithoutTheAPIServer: nothing can be verified then, and the report says so.
func TestDrainEndsWithoutTheAPIServer(t *testing.T) {
	for name, lists := range map[string]int{"it has listed the pods once": 1, "it has never listed them": 0} {
		virtual(t, name, func(t *testing.T) {
			c := newCluster(t, runningPod("a"))
			var made atomic.Int64
			c.onList = func() error {
				if made.Add(1) <= int64(lists) {
					return nil
				}
				return errUnavailable
			}
			c.answer = func(string) error { return errors.New("connection refused") }
			c.start(defaults)
			report, err := c.drain("n", time.Minute)()
			if err != nil || !report.Unverified || report.Took > time.Minute+endMargin+lastListTimeout || len(report.Left) != lists {
				t.Errorf("got %+v, %v", report, err)
			}
			if result := report.result(nil); result != LeftBehind {
				t.Errorf("the result is %s", result)
			}
		})
	}
}

// TestGoneOrNot: an answer that says that a pod is gone is believed if a read agrees.
func TestGoneOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, runningPod("a"))
		c.answer = func(string) error { return apierrors.NewNotFound(podResource, "a") }
		c.start(defaults)
		report, err := c.drain("n", time.Minute)()
		if err != nil || len(report.Left) != 1 || report.Forced > 0 || c.countRecords("evicted a") > 0 {
			t.Errorf("got %+v, %v, %q", report, err, c.log)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, runningPod("a"))
		c.answer = func(string) error {
			other := runningPod("a")
			other.UID, other.Spec.NodeName = types.UID("another"), "elsewhere"
			c.pods[types.NamespacedName{Namespace: "x", Name: "a"}] = other // the watch of n shows the first one still
			return apierrors.NewConflict(podResource, "a", errors.New("the UID in the precondition does not match"))
		}
		c.start(defaults)
		c.expectDrained(c.drain("n", time.Minute), 1)
	})
}

// TestAnotherNodeOfTheName: a drain does not touch the pods of a Node that has the name of the one that it drains.
func TestAnotherNodeOfTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.addPod("n", "stays", "", func(p *corev1.Pod) { p.Annotations = map[string]string{DrainAnnotation: Wait} })
		c.start(defaults)
		wait := c.drain("n", time.Hour)
		elapse(time.Minute)
		another := "another"
		c.nodeUID.Store(&another)
		c.drainer.NodeChanged("n")
		report, err := wait()
		if !errors.Is(err, ErrReplaced) || !report.Lost || len(c.requestLog()) > 0 {
			t.Errorf("got %+v, %v, and requests %q", report, err, c.requestLog())
		}
	})
}

// TestWebhookIsNamedUntilTheAnswer: while a request is in flight, and after one without an answer, a pod waits for the
// webhook that held it last.
func TestWebhookIsNamedUntilTheAnswer(t *testing.T) {
	r := Removal{Pod: pod("a")}
	r.Pod.Try = r.next(Refused, "busy", deniedBy("guard.example.com", 403), t0)
	if r.Pod.Try.Webhook != "" {
		t.Fatal("the message names no webhook")
	}
	denial := deniedBy("guard.example.com", 403)
	r.Pod.Try = r.next(Refused, denial.Error(), denial, t0)
	r.Pod.Try = r.next(Deferred, "timeout", errors.New("timeout"), t0)
	if try := r.Pod.Try; try.Webhook != "guard.example.com" || try.Message != denial.Error() {
		t.Errorf("got %+v", try)
	}
	r.Pod.Try.Last, r.Pod.Try.Next = Sent, time.Time{}
	given{}.expect(t, "in flight", s, "wait a refused-by-webhook; again 10m0s", r.Pod)
}
