package drain

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// byNode has lists and watches show the pods of one node, which the fake client does not do of itself.
func (w *fixture) byNode() {
	on := func(s fields.Selector, obj runtime.Object) bool {
		p, ok := obj.(*corev1.Pod)
		return ok && s.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName})
	}
	w.client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		all, err := w.client.Tracker().List(podsResource, corev1.SchemeGroupVersion.WithKind("Pod"), "")
		if err != nil {
			return true, nil, err
		}
		list := all.(*corev1.PodList)
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			return !on(a.(clienttesting.ListActionImpl).GetListRestrictions().Fields, &p)
		})
		return true, list, nil
	})
	w.client.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		all, err := w.client.Tracker().Watch(podsResource, "")
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(all, func(e watch.Event) (watch.Event, bool) {
			return e, on(a.(clienttesting.WatchActionImpl).GetWatchRestrictions().Fields, e.Object)
		}), nil
	})
}

// TestTurnsOfManyNodes: pods that one budget holds on several nodes, drained at the same time, have turns too.
func TestTurnsOfManyNodes(t *testing.T) {
	for name, spacing := range map[string]time.Duration{
		"with time for all turns":                   time.Minute,
		"with turns that all come at half the time": 20 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes = 4
				var pods []runtime.Object
				for _, n := range []string{"n1", "n2", "n3", "n4"} {
					p := running("on-" + n)
					p.Spec.NodeName = n
					pods = append(pods, p)
				}
				w := newFixture(t, withConfig(func(c *Config) { c.ForceSpacing = spacing }), append(pods, pdb(0))...)
				w.byNode()
				w.answer = func(string) error { return blockedError(0) }
				var at []time.Duration
				w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					at = append(at, time.Since(w.since)) // under the lock of the client
					return false, nil, nil
				})
				var drains sync.WaitGroup
				for _, p := range pods {
					target := Target{Name: p.(*corev1.Pod).Spec.NodeName, Since: w.since, Deadline: w.since.Add(20 * time.Minute)}
					drains.Go(func() {
						if _, err := w.drainer.Drain(context.Background(), target); err != nil {
							t.Error(err)
						}
					})
				}
				drains.Wait()
				if len(at) != nodes {
					t.Fatalf("%d deletions: %v", len(at), at)
				}
				for i := 1; i < nodes; i++ {
					if apart := at[i] - at[i-1]; apart < terminationLag || at[0] < 10*time.Minute {
						t.Errorf("deleted at %v, want one after the other, past half of the time", at)
						break
					}
				}
			})
		})
	}
}

func TestTurnsBehindOnes(t *testing.T) {
	behind := func(n int) func(*Budget) { return func(b *Budget) { b.PodsOnLaterNodes = n } }
	runRows(t, []row{
		{
			name: "pods of later drains have their turns after it", policy: func(p *Policy) { p.ForceSpacing = m },
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, behind(2))), now: 7*m + 29*s,
			want: "wait a blocked-by-budget x/b; again 7m30s",
		},
		{
			name: "and of two budgets the one that holds more counts", policy: func(p *Policy) { p.ForceSpacing = m },
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"))},
			budgets: map[string]Budget{"x/b": budget(3, behind(1)), "x/c": budget(3, behind(3))}, now: 6*m + 30*s,
			want: "delete a in 30s",
		},
	})
}
