package lead

import (
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// AgentLabel is the label of the Lease of an agent, whatever its name is.
const AgentLabel = "node-drainer.io/agent"

// Annotations of the Lease of an agent, which say what it answers.
const (
	clusterAnnotation = "node-drainer.io/cluster"
	queueAnnotation   = "node-drainer.io/queue"
	hooksAnnotation   = "node-drainer.io/hooks"
)

// Mark is what an agent says of itself in its Lease, for clients that have nodes drained by it.
type Mark struct {
	Cluster string   // The name of the cluster in the tags of Auto Scaling groups.
	Queue   string   // The URL of the queue.
	Hooks   []string // The lifecycle hooks that it answers; empty is those that notify the queue.
}

// Agent is the Lease of an agent, as it was read.
type Agent struct {
	Mark
	Lease   string    // namespace/name.
	Renewed time.Time // By the clock of the agent.
	Holds   time.Duration
}

// clockSkew is by how much the clock of an agent may differ, and how much later it may renew its Lease.
const clockSkew = 2 * time.Minute

// IsLive reports whether an agent has renewed the Lease lately.
func (a Agent) IsLive(now time.Time) bool { return now.Before(a.Renewed.Add(a.Holds + clockSkew)) }

// AgentOf reads the Lease of an agent. It reports false for another Lease.
func AgentOf(l *coordinationv1.Lease) (Agent, bool) {
	a := Agent{Lease: l.Namespace + "/" + l.Name, Mark: Mark{
		Cluster: l.Annotations[clusterAnnotation], Queue: l.Annotations[queueAnnotation],
	}}
	if l.Labels[AgentLabel] == "" || a.Cluster == "" {
		return Agent{}, false
	}
	if hooks := l.Annotations[hooksAnnotation]; hooks != "" {
		a.Hooks = strings.Split(hooks, ",")
	}
	held := l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	if renewed, seconds := l.Spec.RenewTime, l.Spec.LeaseDurationSeconds; held && renewed != nil && seconds != nil {
		a.Renewed, a.Holds = renewed.Time, time.Duration(*seconds)*time.Second
	}
	return a, true
}

// Answers reports whether the agent answers a lifecycle hook with the name, whose target is an ARN, or empty where
// EventBridge delivers. Without names it answers what reaches its queue, which a topic or EventBridge may do.
func (m Mark) Answers(hook, target string) bool {
	if len(m.Hooks) > 0 {
		return slices.Contains(m.Hooks, hook)
	}
	service := strings.SplitN(target, ":", 6)
	if len(service) < 6 || service[2] != "sqs" {
		return true
	}
	return strings.HasSuffix(m.Queue, "/"+service[4]+"/"+service[5])
}

// marked writes the mark into the Leases that a client creates and updates.
type marked struct {
	typed.LeasesGetter
	mark *Mark // nil writes none.
}

// Leases returns the client of a namespace.
func (m marked) Leases(namespace string) typed.LeaseInterface {
	if m.mark == nil {
		return m.LeasesGetter.Leases(namespace)
	}
	return markedLeases{m.LeasesGetter.Leases(namespace), *m.mark}
}

type markedLeases struct {
	typed.LeaseInterface
	mark Mark
}

// Create creates the Lease with the mark.
func (m markedLeases) Create(
	ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return m.LeaseInterface.Create(ctx, m.mark.on(l), o)
}

// Update writes the Lease with the mark.
func (m markedLeases) Update(
	ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return m.LeaseInterface.Update(ctx, m.mark.on(l), o)
}

func (m Mark) on(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Labels[AgentLabel] = "true"
	l.Annotations[clusterAnnotation], l.Annotations[queueAnnotation] = m.Cluster, m.Queue
	if l.Annotations[hooksAnnotation] = strings.Join(m.Hooks, ","); len(m.Hooks) == 0 {
		delete(l.Annotations, hooksAnnotation)
	}
	return l
}
