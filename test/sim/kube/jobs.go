package kube

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// jobState is what the controller of a Job remembers, which Kubernetes keeps in finalizers of the pods.
type jobState struct {
	running   map[types.UID]*corev1.Pod // as last seen
	ended     map[types.UID]bool
	succeeded int
	failed    int
	waits     time.Time // no pod is created before this
}

// reconcileJob creates the pods that a Job lacks. A pod that failed or is deleted counts towards the backoffLimit,
// unless the podFailurePolicy ignores pods that are disrupted. After a failure it waits, twice as long each time,
// from 10 s.
func (c *workloads) reconcileJob(name types.NamespacedName) {
	job, ok := find[*batchv1.Job](c.loop, name)
	if !ok || len(job.Status.Conditions) > 0 {
		return
	}
	state := c.jobs[job.UID]
	if state == nil {
		state = &jobState{ended: map[types.UID]bool{}}
		c.jobs[job.UID] = state
	}
	if failed := state.failed; state.count(job, c.server.podsOf(job.UID)) > failed {
		state.waits = time.Now().Add(min(10*time.Second<<min(state.failed-1, 6), 6*time.Minute))
		c.server.clock.at(state.waits, func() { c.reconcile(job) })
	}
	limit := 6
	if job.Spec.BackoffLimit != nil {
		limit = int(*job.Spec.BackoffLimit)
	}
	want := scale(job.Spec.Completions) - state.succeeded
	switch {
	case state.failed > limit:
		c.endJob(job, state, batchv1.JobFailed)
	case want == 0:
		c.endJob(job, state, batchv1.JobComplete)
	case !time.Now().Before(state.waits):
		for range min(scale(job.Spec.Parallelism), want) - len(state.running) {
			c.createPod(job, batchv1.SchemeGroupVersion.WithKind("Job"), c.newName(job), job.Spec.Template,
				func(*corev1.Pod) {})
		}
	}
}

// count counts the pods of a Job that have ended since the last time, and returns how many have failed.
func (s *jobState) count(job *batchv1.Job, pods []*corev1.Pod) int {
	gone := s.running
	s.running = map[types.UID]*corev1.Pod{}
	for _, p := range pods {
		delete(gone, p.UID)
		switch {
		case s.ended[p.UID]:
		case isTerminal(p), p.DeletionTimestamp != nil && job.Spec.PodFailurePolicy == nil:
			s.end(job, p)
		default:
			s.running[p.UID] = p
		}
	}
	for _, p := range gone { // The order does not matter.
		s.end(job, p)
	}
	return s.failed
}

func (s *jobState) end(job *batchv1.Job, pod *corev1.Pod) {
	s.ended[pod.UID] = true
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		s.succeeded++
	case !ignoresDisruption(job) || !isDisrupted(pod):
		s.failed++
	}
}

func isDisrupted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

func ignoresDisruption(job *batchv1.Job) bool {
	if job.Spec.PodFailurePolicy == nil {
		return false
	}
	return slices.ContainsFunc(job.Spec.PodFailurePolicy.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		return r.Action == batchv1.PodFailurePolicyActionIgnore && slices.ContainsFunc(r.OnPodConditions,
			func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool { return p.Type == corev1.DisruptionTarget })
	})
}

// endJob writes how a Job has ended, and deletes the pods that still run.
func (c *workloads) endJob(job *batchv1.Job, state *jobState, how batchv1.JobConditionType) {
	update(&c.server.store, "Job controller", nameOf(job), func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed = int32(state.succeeded), int32(state.failed)
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: how, Status: corev1.ConditionTrue, LastTransitionTime: now(),
		})
	})
	for _, p := range c.active(job.UID) {
		c.deletePod("Job controller", p)
	}
}
