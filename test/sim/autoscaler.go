package sim

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// clusterAutoscaler models the Cluster Autoscaler of a cluster, while a pod of its Deployment is ready: a pod that
// waits for a node adds an instance to a group, and a node without pods, whose scale-down is not disabled, is removed.
type clusterAutoscaler struct {
	*rolloutFacts
	cluster *cluster
	empty   map[string]time.Time // since when a node has no pods
	grown   map[types.UID]int    // how often an instance was added while a pod waited: none helps one that fits no node
}

func newClusterAutoscaler(f *rolloutFacts, c *cluster) *clusterAutoscaler {
	return &clusterAutoscaler{f, c, map[string]time.Time{}, map[types.UID]int{}}
}

const (
	// autoscalerName is the name of the Deployment, in kube-system.
	autoscalerName = "cluster-autoscaler"
	// unneeded is how long a node has no pods until it is removed.
	unneeded = 10 * time.Minute
	// pending is how long a pod waits until an instance is added, and mostGrown how often one is.
	pending   = 30 * time.Second
	mostGrown = 3
)

func autoscalerKey() types.NamespacedName {
	return types.NamespacedName{Namespace: "kube-system", Name: autoscalerName}
}

// createAutoscaler creates the Deployment of the Cluster Autoscaler.
func (c *cluster) createAutoscaler() error {
	template := podTemplate(Workload{Name: autoscalerName, Start: time.Second, Grace: 10 * time.Second, Stop: time.Second})
	return c.server.Create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: autoscalerKey().Namespace, Name: autoscalerName},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
		},
	})
}

// run works until ctx ends, or nothing may interfere any more.
func (a *clusterAutoscaler) run(ctx context.Context) {
	for retry.Sleep(ctx, 30*time.Second) && !a.isHealed() {
		d, ok := kube.Get[*appsv1.Deployment](a.cluster.server, autoscalerKey())
		if !ok || d.Status.ReadyReplicas == 0 {
			a.empty = map[string]time.Time{}
			continue
		}
		for _, g := range a.cluster.Groups {
			if slices.ContainsFunc(a.aws.Instances(g.Name), isChanging) {
				continue // It waits for what the group does.
			}
			if waiting := a.podsPending(); len(waiting) > 0 && a.grow(g.Name) { //nolint:contextcheck // one of the model
				for _, p := range waiting {
					a.grown[p.UID]++
				}
				break
			}
			a.shrink(ctx, g.Name)
		}
	}
}

// podsPending are the pods for which an instance is to be added.
func (a *clusterAutoscaler) podsPending() []*corev1.Pod {
	return slices.DeleteFunc(kube.List[*corev1.Pod](a.cluster.server), func(p *corev1.Pod) bool {
		waits := p.Spec.NodeName == "" && p.DeletionTimestamp == nil && time.Since(p.CreationTimestamp.Time) > pending
		return !waits || a.grown[p.UID] >= mostGrown
	})
}

// grow adds an instance to a group, if it may be larger.
func (a *clusterAutoscaler) grow(group string) bool {
	_, most, before := a.aws.Sizes(group)
	if before >= most {
		return false
	}
	desired := int32(before + 1)
	_, err := a.client().SetDesiredCapacity(context.Background(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &group, DesiredCapacity: &desired,
	})
	a.log.add(autoscalerName, "group grows", "group", group, "desired", desired, "error", err)
	if err == nil {
		a.ask(group, before, 1)
	}
	return err == nil
}

// shrink removes the nodes of a group that are not needed, but for the last one.
func (a *clusterAutoscaler) shrink(ctx context.Context, group string) {
	all := slices.DeleteFunc(a.aws.Instances(group), func(i awsim.Instance) bool { return i.State != "InService" })
	for n, i := range all {
		if !a.isEmpty(i.ID) {
			delete(a.empty, i.ID)
			continue
		}
		if _, known := a.empty[i.ID]; !known {
			a.empty[i.ID] = time.Now()
		}
		if time.Since(a.empty[i.ID]) >= unneeded && n < len(all)-1 {
			delete(a.empty, i.ID)
			err := events{a.world}.terminate([]string{i.ID}, true) //nolint:contextcheck // What it starts lives until Close.
			a.log.add(autoscalerName, "node removed", "node", i.ID, "error", err)
			retry.Sleep(ctx, time.Second)
			return
		}
	}
}

// isEmpty reports whether a node is ready and has no pods, and its scale-down is not disabled.
func (a *clusterAutoscaler) isEmpty(id string) bool {
	n, ok := kube.Get[*corev1.Node](a.cluster.server, nodeName(id))
	if !ok {
		return false
	}
	_, isDisabled := n.Annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"]
	return isNodeReady(n) && !isDisabled && !n.Spec.Unschedulable &&
		!slices.ContainsFunc(a.cluster.server.PodsOn(id), mustLeave)
}

// autoscalersRestored checks that each Cluster Autoscaler runs as before, and that nothing says that it is paused.
func (f *rolloutFacts) autoscalersRestored() {
	for _, c := range f.clusters {
		d, ok := kube.Get[*appsv1.Deployment](c.server, autoscalerKey())
		if !ok {
			continue
		}
		if paused := d.Annotations[autoscaler.Annotation]; *d.Spec.Replicas != 1 || paused != "" {
			f.violate("nothing left", "the Cluster Autoscaler has %d replicas, and the annotation %q", *d.Spec.Replicas, paused)
		}
	}
}
