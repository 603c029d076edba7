//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// historyName is the name of the ConfigMap that the chart makes.
func (f *fixture) historyName() string { return f.namespace + "-history" }

// triggerHistory runs trigger history, with access to the cluster and none to AWS, and expects output that matches: with
// the rights of the trigger, and in the pod of an agent.
func (f *fixture) triggerHistory(args []string, patterns ...string) {
	f.t.Helper()
	for _, env := range [][]string{
		{"KUBECONFIG=" + f.viewer, "TRIGGER_CONFIGMAP=" + f.namespace + "/" + f.historyName()},
		{"KUBECONFIG=" + f.kubeconfig, "POD_NAMESPACE=" + f.namespace, "HISTORY_CONFIGMAP=" + f.historyName()},
	} {
		r := &triggerRun{Process: harness.NewProcess(f.withoutAWS(env, "history", args...)), t: f.t}
		r.start()
		r.waitExit(0, patterns...)
	}
}

// TestHistory: the drain of a node is known when the node is gone and its agent has stopped, and the next leader adds to
// the records.
func TestHistory(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	first, firstInstance := f.node()
	second, secondInstance := f.node()
	f.node()
	f.deploy("api", first, 2, cluster.Pods{})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "1"))
	one, two := f.pair("HISTORY_CONFIGMAP=" + f.historyName())

	f.terminate(firstInstance)
	f.waitCompleted(firstInstance)
	one.stop() // which writes the record
	two.waitLog("started leading")
	eventually(t, waitTimeout, func() string { // Its machine deletes it.
		if _, err := f.cluster.Client().CoreV1().Nodes().Get(f.ctx, first, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the node is still there"
		}
		return ""
	})
	pod := "(?m)^" + f.namespace + `/api-\S+ +[0-9-]{10} [0-9:]{8}Z +evicted +- +kept ` + f.namespace + "/api$"
	for _, subject := range []string{first, firstInstance} {
		f.triggerHistory([]string{subject}, `(?m)^`+first+` +`+firstInstance+` +lifecycle-terminating .* drained +2 +2 +0 +0$`, pod)
	}

	f.terminate(secondInstance)
	f.waitCompleted(secondInstance)
	eventually(t, waitTimeout, func() string {
		kept, err := f.cluster.Client().CoreV1().ConfigMaps(f.namespace).Get(f.ctx, f.historyName(), metav1.GetOptions{})
		f.must(err)
		if n := strings.Count(kept.Data["drains"], "\n"); n != 2 {
			return fmt.Sprintf("there are %d records, want 2", n)
		}
		return ""
	})
	f.triggerHistory(nil, `(?m)^`+second+` .*\n`+first+` `)
	f.triggerHistory([]string{"-o", "json"}, `(?s)"node": "`+second+`".*"node": "`+first+`"`)
	for _, agent := range []*agentProcess{one, two} {
		if agent.Count("failed to write the records of drains, retrying") > 0 {
			t.Error("a write has failed")
		}
	}
}

// TestHistoryWithoutItsConfigMap: a drain and its hook do not wait for the record of it.
func TestHistoryWithoutItsConfigMap(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 1, cluster.Pods{})
	f.must(f.cluster.Client().CoreV1().ConfigMaps(f.namespace).Delete(f.ctx, f.historyName(), metav1.DeleteOptions{}))
	agent := f.startAgent("HISTORY_CONFIGMAP="+f.historyName(), "POD_NAMESPACE="+f.namespace)
	f.terminate(instance)
	f.waitHandled(instance)
	agent.waitLog("failed to write the records of drains, retrying")
	began := time.Now()
	agent.stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the agent took %v to stop", took)
	}
	agent.waitLog("records of drains were not written; they are in the log")
}
