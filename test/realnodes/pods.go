package realnodes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// Work has the pods of a workload take jobs from a queue; see the command work of the workload.
func Work(queue string, flags ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { run(t, append([]string{"work", "-queue=" + queue}, flags...)) }
}

// Ignore has the pods of a workload run on after SIGTERM, until they are killed.
func Ignore(t *corev1.PodTemplateSpec) { run(t, []string{"ignore"}) }

// End has the pods of a workload end a while after SIGTERM; see the command end of the workload.
func End(flags ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { run(t, append([]string{"end"}, flags...)) }
}

// Stream has the pods of a workload serve connections that last; see the command stream of the workload.
func Stream(flags ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		run(t, append([]string{"stream"}, flags...)).ReadinessProbe = readiness()
	}
}

// Daemon has a DaemonSet answer those pods of its node that Depend describes.
func Daemon(t *corev1.PodTemplateSpec) {
	run(t, []string{"daemon"})
	mount(t, "disks", Disks(), record.Disks)
}

// Depend has each pod of a workload lock a volume of its node, and ask the daemon of the node until its end; see the
// command depend of the workload.
func Depend(flags ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		run(t, append([]string{"depend"}, flags...))
		mount(t, "disks", Disks(), record.Disks)
	}
}
