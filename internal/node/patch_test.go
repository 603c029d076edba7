package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestPatchesBuildOnOurOwnLastPatch: the second of two patches builds on the result of the first, without a conflict
// or a read, although the watch does not show it yet.
func TestPatchesBuildOnOurOwnLastPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		var guards []string
		client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			guards = append(guards, versionIn(t, a))
			after := tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule)
			return true, newNode(after, cordoned, func(n *corev1.Node) { n.ResourceVersion = fmt.Sprint(7 + len(guards)) }), nil
		})
		found, _ := n.Find(instance)
		for _, by := range []time.Duration{time.Hour, time.Minute} {
			if _, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot", Deadline: time.Now().Add(by)}); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"7", "8"}, guards); diff != "" || verbs(client) != "patch patch" {
			t.Errorf("%s\n%s", verbs(client), diff)
		}
		last := newNode(func(n *corev1.Node) { n.ResourceVersion = "12" })
		if err := client.Tracker().Update(nodesResource, last, ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, ok := n.patcher.written.Load("n"); ok {
			t.Error("our own patch is kept although the watch shows a newer state")
		}
	})
}

// TestPatchTimesOut: a change that the API server does not answer in time has failed.
func TestPatchTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, &url.Error{Op: "Patch", Err: context.DeadlineExceeded} // as net/http returns it
		})
		found, _ := n.Find(instance)
		if _, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the change returned %v", err)
		}
	})
}

// TestPatchWaitsNoLongerThanItsContext: a change of a Node waits for another one, until its context ends.
func TestPatchWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		answer := make(chan struct{})
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-answer
			return true, newNode(), nil
		})
		found, _ := n.Find(instance)
		first := make(chan error)
		go func() {
			_, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"})
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("stopped"))
		defer cancel()
		_, _, err := n.Cordon(ctx, found, Reason{Kind: "hook"})
		if err == nil || !strings.Contains(err.Error(), "wait for another change of node n: stopped") {
			t.Errorf("the second change returned %v", err)
		}
		close(answer)
		if err := <-first; err != nil {
			t.Errorf("the first change returned %v", err)
		}
	})
}

func TestCordonAndUncordon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode(ready(corev1.ConditionTrue)))
		n := watched(t, client, defaults)
		found, ok := n.Find(instance)
		if !ok || !found.Ready || found.Name != "n" || found.UID != "uid-1" || !found.Mark.Since.IsZero() {
			t.Fatalf("got %+v, %v", found, ok)
		}
		reason := Reason{Kind: "lifecycle-terminating", Hook: "g/h", Deadline: time.Now().Add(time.Hour)}
		mark, changed, err := n.Cordon(t.Context(), found, reason)
		if err != nil || !changed {
			t.Fatalf("changed: %v, %v", changed, err)
		}
		synctest.Wait()
		if again, _ := n.Find(instance); cmp.Diff(mark, again.Mark) != "" {
			t.Errorf("the mark on the node:\n%s", cmp.Diff(mark, again.Mark))
		}
		if _, changed, err := n.Cordon(t.Context(), found, reason); err != nil || changed {
			t.Errorf("changed: %v, %v", changed, err)
		}
		if got := verbs(client); got != "patch get" {
			t.Errorf("got %q, want one patch, and a read before the second is omitted", got)
		}
		reason.Deadline = reason.Deadline.Add(-time.Minute)
		if mark, changed, err := n.Cordon(t.Context(), found, reason); err != nil || !changed || !mark.Deadline.Equal(reason.Deadline.Truncate(time.Second)) {
			t.Errorf("an earlier deadline gave %+v, news: %v, %v", mark, changed, err)
		}
		if all := n.All(); len(all) != 1 || all[0].InstanceID != instance {
			t.Errorf("all nodes are %+v", all)
		}
		if uncordoned, err := n.Uncordon(t.Context(), found, never); !uncordoned || err != nil {
			t.Errorf("got %v, %v", uncordoned, err)
		}
		after := nodeNow(t, client)
		if after.Spec.Unschedulable || len(after.Spec.Taints)+len(after.Labels)+len(after.Annotations) > 0 {
			t.Errorf("got %+v", after)
		}
	})
}

// never has Uncordon keep no mark.
func never() bool { return false }

// TestUncordonKeepsAMark that is needed when no other change of the Node is in progress.
func TestUncordonKeepsAMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode(cordoned, markOf(Mark{Since: t0, Added: []string{addedCordon}})))
		n := watched(t, client, defaults)
		found, _ := n.Find(instance)
		end, err := n.patcher.turns.wait(t.Context(), found.Name)
		if err != nil {
			t.Fatal(err)
		}
		needed := false
		time.AfterFunc(time.Second, func() {
			needed = true
			end()
		})
		if uncordoned, err := n.Uncordon(t.Context(), found, func() bool { return needed }); uncordoned || err != nil {
			t.Errorf("got %v, %v, want the mark kept", uncordoned, err)
		}
		if after := nodeNow(t, client); !after.Spec.Unschedulable || len(after.Annotations) == 0 {
			t.Errorf("got %+v", after)
		}
	})
}

// TestUncordonWithAStaleWatch takes a mark off that the watch does not show yet.
func TestUncordonWithAStaleWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode(cordoned, markOf(Mark{Since: t0, Added: []string{addedCordon}})))
		n := watched(t, client, defaults)
		if err := n.informer.GetStore().Update(newNode()); err != nil {
			t.Fatal(err)
		}
		found, _ := n.Find(instance)
		if uncordoned, err := n.Uncordon(t.Context(), found, never); !uncordoned || err != nil {
			t.Errorf("got %v, %v, want it uncordoned", uncordoned, err)
		}
	})
}

// versionIn is the resource version that guards a merge patch.
func versionIn(t *testing.T, action clienttesting.Action) string {
	var body struct {
		Metadata struct{ ResourceVersion string }
	}
	p := action.(clienttesting.PatchActionImpl)
	if err := json.Unmarshal(p.GetPatch(), &body); err != nil || p.GetPatchType() != types.MergePatchType {
		t.Errorf("got a patch of type %s: %v", p.GetPatchType(), err)
	}
	return body.Metadata.ResourceVersion
}

// conflicts answers the first n patches with a conflict, and records the versions in all of them.
func conflicts(t *testing.T, client *fake.Clientset, n int, versions *[]string) {
	client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if *versions = append(*versions, versionIn(t, action)); len(*versions) <= n {
			return true, nil, apierrors.NewConflict(nodeResource, "n", errors.New("the object has been modified"))
		}
		return true, newNode(), nil
	})
}

func TestConflictsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		found, _ := n.Find(instance)
		var versions []string
		conflicts(t, client, 2, &versions)
		client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, newNode(func(o *corev1.Node) { o.ResourceVersion = fmt.Sprintf("%d", 7+len(versions)) }), nil
		})
		if _, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"}); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"7", "8", "9"}, versions); diff != "" {
			t.Errorf("the versions that guard the patches:\n%s", diff)
		}
	})
}

func TestCordonANodeThatIsGone(t *testing.T) {
	notFound := apierrors.NewNotFound(nodeResource, "n")
	check := func(name string, get error, shown ...runtime.Object) {
		t.Helper()
		virtual(t, name, func(t *testing.T) {
			client := fake.NewClientset(shown...)
			n := watched(t, client, defaults)
			var versions []string
			conflicts(t, client, 1, &versions)
			client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, newNode(func(o *corev1.Node) { o.UID = "uid-2" }), get
			})
			_, _, err := n.Cordon(t.Context(), Node{Name: "n", UID: "uid-1"}, Reason{Kind: "spot"})
			if !errors.Is(err, ErrGone) {
				t.Errorf("got %v, want %v", err, ErrGone)
			}
		})
	}
	check("the watch does not show it, and the API has none", notFound)
	check("the watch shows it, and the API has none", notFound, newNode())
	check("another instance has its name now", nil, newNode())
}

func TestOtherErrorsAreReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		fail(client, "patch", "nodes", apierrors.NewForbidden(nodeResource, "n", errors.New("no")))
		found, _ := n.Find(instance)
		_, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"})
		if !apierrors.IsForbidden(err) || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "change node n") {
			t.Errorf("got %v", err)
		}
	})
}

func TestExcludeIfConfiguredLate(t *testing.T) {
	for _, tt := range []struct {
		when string
		want string
	}{{Early, ""}, {Off, ""}, {Late, "patch"}} {
		virtual(t, tt.when, func(t *testing.T) {
			client := fake.NewClientset(newNode(markOf(Mark{Since: t0})))
			n := watched(t, client, with(func(c *Config) { c.ExcludeFromLB = tt.when }))
			found, _ := n.Find(instance)
			if err := n.Exclude(t.Context(), found); err != nil {
				t.Error(err)
			}
			if got := verbs(client); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestCordonDeniedByAWebhook: a webhook that denies the change with 404 does not make the Node gone.
func TestCordonDeniedByAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		found, _ := n.Find(instance)
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.FromObject(&metav1.Status{
				Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
				Message: `admission webhook "guard.example.com" denied the request: no`,
			})
		})
		if _, _, err := n.Cordon(t.Context(), found, Reason{Kind: "spot"}); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("got %v", err)
		}
	})
}
