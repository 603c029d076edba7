package cluster

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const instance = "i-0123456789abcdef0"

// node is a Node of the instance with what the changes make of it.
func newNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.ProviderID = "aws:///eu-central-1a/" + instance
	for _, change := range changes {
		change(n)
	}
	return n
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "PodsLeft", Message: "2 pods are left.", LastTransitionTime: metav1.NewTime(time.Unix(60, 0)),
		})
	}
}

func ready(n *corev1.Node) { condition(corev1.NodeReady, corev1.ConditionTrue)(n) }

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
}

func TestToNode(t *testing.T) {
	t.Parallel()
	drain := &Drain{Reason: "PodsLeft", Message: "2 pods are left.", Since: time.Unix(60, 0)}
	drained := *drain
	drained.Done = true
	for _, tt := range []struct {
		name string
		node *corev1.Node
		want Node
	}{
		{"new", newNode("a"), Node{Name: "a"}},
		{"ready", newNode("a", ready), Node{Name: "a", Ready: true, ReadySince: time.Unix(60, 0)}},
		{"unknown is not ready", newNode("a", condition(corev1.NodeReady, corev1.ConditionUnknown)), Node{Name: "a"}},
		{"tainted as outdated", newNode("a", tainted(OutdatedTaint)), Node{Name: "a", Tainted: true}},
		{"with a UID", newNode("a", func(n *corev1.Node) { n.UID = "u" }), Node{Name: "a", UID: "u"}},
		{"another condition", newNode("a", condition(corev1.NodeDiskPressure, corev1.ConditionTrue)), Node{Name: "a"}},
		{"with labels", newNode("a", func(n *corev1.Node) { n.Labels = map[string]string{"x": "y"} }), Node{Name: "a", Labels: map[string]string{"x": "y"}}},
		{"tainted by the agent", newNode("a", tainted("node-drainer.io/terminating")), Node{Name: "a", Marked: true}},
		{"tainted by another controller", newNode("a", tainted("other")), Node{Name: "a"}},
		{
			"marked with a taint of another key",
			newNode("a", func(n *corev1.Node) { n.Annotations = map[string]string{"node-drainer.io/termination": "{}"} }),
			Node{Name: "a", Marked: true},
		},
		{"being drained", newNode("a", condition("node-drainer.io/Drained", corev1.ConditionFalse)), Node{Name: "a", Drain: drain}},
		{"drained", newNode("a", condition("node-drainer.io/Drained", corev1.ConditionTrue)), Node{Name: "a", Drain: &drained}},
	} {
		tt.node.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
		kept, err := strip(tt.node)
		if err != nil {
			t.Fatal(err)
		}
		stripped := kept.(*corev1.Node)
		if got := toNode(stripped); !reflect.DeepEqual(got, tt.want) || node.InstanceOf(stripped) != instance || len(stripped.Status.Images) > 0 {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestInstanceOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, providerID, want string }{
		{"an EC2 instance", "aws:///eu-west-1a/" + instance, instance},
		{"Fargate", "aws:///eu-west-1a/0123456789-fargate/fargate-ip-10-0-0-1.compute.internal", ""},
		{"another cloud", "gce://project/zone/i-machine", ""},
		{"not registered yet", "", ""},
	} {
		n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: tt.providerID}}
		index, err := instanceIndex(n)
		if got := node.InstanceOf(n); got != tt.want || err != nil || strings.Join(index, "") != tt.want {
			t.Errorf("%s: got %q, the index %v, %v", tt.name, got, index, err)
		}
	}
}

func TestViewKeepsUpToDate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode("a", ready), newNode("fargate", func(n *corev1.Node) { n.Spec.ProviderID = "" }))
		v := New(client)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() {
			if err := v.Run(ctx, time.Minute); err != nil {
				t.Errorf("Run returned %v", err)
			}
		})
		<-v.Synced()
		nodes := client.CoreV1().Nodes()
		expect := func(step string, err error, want Node) {
			synctest.Wait()
			if got, ok := v.Node(instance); err != nil || ok != (want.Name != "") || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v, %v", step, got, ok, err)
			}
		}
		expect("listed", nil, Node{Name: "a", Ready: true, ReadySince: time.Unix(60, 0)})
		if on := v.InstanceOf("a"); on != instance {
			t.Errorf("the node is on %q", on)
		}
		if _, ok := v.Node("i-other"); ok || v.InstanceOf("fargate") != "" || v.InstanceOf("other") != "" {
			t.Error("an unknown node is found")
		}
		_, err := nodes.Update(ctx, newNode("a", ready, tainted(taintKey)), metav1.UpdateOptions{})
		expect("marked", err, Node{Name: "a", Ready: true, ReadySince: time.Unix(60, 0), Marked: true})
		expect("deleted", nodes.Delete(ctx, "a", metav1.DeleteOptions{}), Node{})
		_, err = nodes.Create(ctx, newNode("b"), metav1.CreateOptions{})
		expect("created again", err, Node{Name: "b"})
		newer := func(n *corev1.Node) { n.CreationTimestamp = metav1.Now() }
		_, err = nodes.Create(ctx, newNode("a", ready, newer), metav1.CreateOptions{})
		expect("registered again under another name", err, Node{Name: "a", Ready: true, ReadySince: time.Unix(60, 0)})
		_, err = nodes.Update(ctx, newNode("b", ready), metav1.UpdateOptions{})
		expect("both are Ready", err, Node{Name: "b", Ready: true, ReadySince: time.Unix(60, 0)})
	})
}

// refuse makes calls of the verb on the resource fail.
func refuse(client *fake.Clientset, verb, resource string, err error) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func TestRunWithoutAccess(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no role"))
	down := errors.New("connection refused")
	refusesLists := func(err error) func(c *fake.Clientset) {
		return func(c *fake.Clientset) { refuse(c, "list", "nodes", err) }
	}
	for _, tt := range []struct {
		name  string
		given func(c *fake.Clientset)
		want  string
	}{
		{"the list is forbidden", refusesLists(forbidden), "list nodes (check"},
		{"the token has expired", refusesLists(apierrors.NewUnauthorized("token expired")), "list nodes (get new credentials for the cluster): token expired"},
		{"the API server is unreachable", refusesLists(down), "connection refused"},
		{"the watch is forbidden", func(c *fake.Clientset) {
			c.PrependWatchReactor("nodes", clienttesting.DefaultWatchReactor(nil, forbidden))
		}, "watch nodes (check"},
		{"the API server becomes unreachable", func(c *fake.Clientset) {
			listed := false
			c.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				if listed {
					return true, nil, down
				}
				listed = true
				return false, nil, nil
			})
		}, "list nodes within 5s: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, start := fake.NewClientset(), time.Now()
				tt.given(client)
				err := New(client).Run(t.Context(), 5*time.Second)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestStale: a watch that is forbidden later does not end Run. The view says that it is stale, and heals.
func TestStale(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no role"))
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode("a", ready))
		var refused atomic.Bool
		watching := make(chan *watch.FakeWatcher, 10)
		client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
			if refused.Load() {
				return true, nil, forbidden
			}
			w := watch.NewFake()
			watching <- w
			return true, w, nil
		})
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if refused.Load() {
				return true, nil, forbidden
			}
			return false, nil, nil
		})
		v := New(client)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() {
			if err := v.Run(ctx, time.Minute); err != nil {
				t.Errorf("Run returned %v", err)
			}
		})
		<-v.Synced()
		synctest.Wait()
		if err := v.Stale(); err != nil {
			t.Errorf("stale at the start: %v", err)
		}
		refused.Store(true)
		<-watching // of the first request, which was only to see whether it is allowed
		(<-watching).Stop()
		time.Sleep(time.Hour)
		if err := v.Stale(); err == nil || !strings.Contains(err.Error(), "check the ClusterRole") {
			t.Errorf("an hour without permission: %v", err)
		}
		refused.Store(false)
		time.Sleep(10 * time.Minute)
		if err := v.Stale(); err != nil {
			t.Errorf("the permission is back: %v", err)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("a signal"))
	client := fake.NewClientset()
	refuse(client, "list", "nodes", ctx.Err())
	if err := New(client).Run(ctx, time.Minute); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestSelf(t *testing.T) {
	t.Parallel()
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "job"}, Spec: corev1.PodSpec{NodeName: "a"}}
	v := New(fake.NewClientset(own))
	for _, tt := range []struct{ name, namespace, pod, want string }{
		{"a pod", "ci", "job", "a"},
		{"a pod of another cluster", "ci", "other", ""},
		{"no pod", "", "", ""},
	} {
		if got, err := v.Self(t.Context(), tt.namespace, tt.pod); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v", tt.name, got, err)
		}
	}
	client := fake.NewClientset()
	refuse(client, "get", "pods", errors.New("forbidden"))
	if _, err := New(client).Self(t.Context(), "ci", "job"); err == nil || !strings.Contains(err.Error(), "ci/job") {
		t.Errorf("a call that is refused: %v", err)
	}
}
