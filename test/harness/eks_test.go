package harness_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
)

// machines create Nodes that are Ready at once.
type machines struct{ client *fake.Clientset }

func (m machines) Launch(ctx context.Context, id, zone string) error {
	_, err := m.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + id},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + id},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	return err
}

func (m machines) Terminate(ctx context.Context, id string) ([]string, error) {
	return nil, m.client.CoreV1().Nodes().Delete(ctx, "node-"+id, metav1.DeleteOptions{})
}

func (m machines) Pods(context.Context, string) ([]string, error) { return nil, nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pods are one of a Deployment and one that a PodDisruptionBudget protects, one of a DaemonSet, a mirror pod and one
// that has ended.
func pods(node string) []runtime.Object {
	pod := func(name string, change func(p *corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid"}, Spec: corev1.PodSpec{NodeName: node},
		}
		change(p)
		return p
	}
	return []runtime.Object{
		pod("web", func(*corev1.Pod) {}),
		pod("guarded", func(*corev1.Pod) {}),
		pod("agent", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}),
		pod("mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	}
}

// evictions makes the fake API server evict pods, except for the guarded one, and returns the names of those that it
// was asked to evict.
func evictions(client *fake.Clientset, asked func(name string)) {
	client.PrependReactor("create", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		eviction, is := action.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction)
		if !is {
			return false, nil, nil
		}
		asked(eviction.Name)
		if eviction.Name == "guarded" {
			return true, nil, apierrors.NewTooManyRequests("budget", 1)
		}
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		return true, nil, client.Tracker().Delete(pods, eviction.Namespace, eviction.Name)
	})
}

// TestEKS updates a node group of one node by force, in virtual time.
func TestEKS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		s := awsim.NewUnconnected(awsim.Options{Machines: machines{client}})
		defer func() { must(t, s.Close()) }()
		s.CreateCluster("demo", "1.31")
		must(t, s.Connect("demo", harness.NewEKS(client), awsim.EKSTimes{}))
		s.PutSubnet(awsim.Subnet{ID: "subnet-a", Zone: "eu-central-1a"})
		for _, day := range []string{"1", "2"} {
			s.PublishRelease(awsim.Release{KubernetesVersion: "1.31", Version: "1.31.0-2026010" + day, Image: "ami-" + day})
		}
		group, err := s.CreateNodegroup(awsim.Nodegroup{
			Cluster: "demo", Name: "workers", Max: 1, Desired: 1, Subnets: []string{"subnet-a"}, Release: "1.31.0-20260101",
		})
		must(t, err)
		time.Sleep(time.Minute)
		old := s.Instances(group)[0].ID
		for _, pod := range pods("node-" + old) {
			must(t, client.Tracker().Add(pod))
		}
		asked := make(chan string, 1000)
		evictions(client, func(name string) { asked <- name })

		api := eks.New(eks.Options{
			Region: "eu-central-1", BaseEndpoint: new(s.URL()), HTTPClient: &http.Client{Transport: s},
			Credentials: credentials.NewStaticCredentialsProvider("test", "secret", ""), Retryer: aws.NopRetryer{},
		})
		_, err = api.UpdateNodegroupVersion(t.Context(), &eks.UpdateNodegroupVersionInput{
			ClusterName: new("demo"), NodegroupName: new("workers"), Force: true,
		})
		must(t, err)
		time.Sleep(10 * time.Minute)
		node, err := client.CoreV1().Nodes().Get(t.Context(), "node-"+old, metav1.GetOptions{})
		must(t, err)
		if !node.Spec.Unschedulable || node.Labels["eks.amazonaws.com/nodegroup-image"] != "ami-1" ||
			node.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] != "true" {
			t.Errorf("the node is %+v", node)
		}
		time.Sleep(time.Hour)
		out, err := api.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: new("demo"), NodegroupName: new("workers")})
		must(t, err)
		left, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if out.Nodegroup.Status != types.NodegroupStatusActive || *out.Nodegroup.ReleaseVersion != "1.31.0-20260102" || len(left.Items) != 3 {
			t.Errorf("the node group is %+v, and %d pods are left", out.Nodegroup, len(left.Items))
		}
		close(asked)
		names := map[string]int{}
		for name := range asked {
			names[name]++
		}
		if len(names) != 2 || names["web"] != 1 || names["guarded"] < 100 {
			t.Errorf("EKS evicted %v", names)
		}
		if slices.ContainsFunc(s.Instances(group), func(i awsim.Instance) bool { return i.ID == old }) {
			t.Errorf("the instance %s is still there", old)
		}
	})
}
