//go:build e2e

package realnodes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

// TestPodsEnd: what a kubelet writes of pods that are deleted, which test/sim/kube and the stages of kwok model.
func TestPodsEnd(t *testing.T) {
	f := newFixture(t)
	f.launch(1)
	for name, change := range map[string]func(*corev1.PodTemplateSpec){
		"exits": realnodes.End("-after=2s"), "fails": realnodes.End("-after=2s", "-fail"), "ignores": realnodes.Ignore,
	} {
		f.must(f.cluster.Pod(t.Context(), f.namespace, name, cluster.Pods{GracePeriod: 4 * time.Second, Change: change}))
	}
	pods := f.cluster.Client().CoreV1().Pods(f.namespace)
	f.must(f.cluster.WaitReady(f.waits(), f.namespace, "", 3))
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	f.must(err)
	watch, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	f.must(err)
	defer watch.Stop()
	for _, p := range list.Items {
		f.must(pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
	}
	got := map[string][]string{}
	begin := time.Now()
	for gone := 0; gone < len(list.Items); {
		select {
		case e := <-watch.ResultChan():
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("%+v", e)
			}
			says := podState(p)
			if e.Type == "DELETED" {
				says, gone = "gone: "+says, gone+1
			}
			if lines := got[p.Name]; len(lines) == 0 || lines[len(lines)-1] != says {
				t.Logf("%s after %v: %s", p.Name, time.Since(begin), says)
				got[p.Name] = append(lines, says)
			}
		case <-f.waits().Done():
			t.Fatalf("not all pods are gone: %v", got)
		}
	}
	const begun = "Running, Ready True, deleted with a grace period, container running"
	ended := func(says, container string) []string {
		return []string{
			begun, says + ", deleted with a grace period, container " + container,
			says + ", deleted without one, container " + container, "gone: " + says + ", deleted without one, container " + container,
		}
	}
	for name, want := range map[string][]string{
		"exits":   ended("Succeeded, Ready False PodCompleted", "terminated 0"),
		"fails":   ended("Failed, Ready False PodFailed", "terminated 1"),
		"ignores": ended("Failed, Ready False PodFailed", "terminated 137"),
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got[name], "\n"), strings.Join(want, "\n"))
		}
	}
}

// podState is what the models write of a pod.
func podState(p *corev1.Pod) string {
	ready := "none"
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			ready = strings.TrimSpace(string(c.Status) + " " + c.Reason)
		}
	}
	state := "deleted with a grace period"
	if g := p.DeletionGracePeriodSeconds; g == nil {
		state = "not deleted"
	} else if *g == 0 {
		state = "deleted without one"
	}
	container := "unknown"
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Running != nil:
			container = "running"
		case c.State.Terminated != nil:
			container = fmt.Sprintf("terminated %d", c.State.Terminated.ExitCode)
		}
	}
	return fmt.Sprintf("%s, Ready %s, %s, container %s", p.Status.Phase, ready, state, container)
}
