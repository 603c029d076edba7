package cluster

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/lead"
)

func agentLease(namespace string, labels map[string]string) *coordinationv1.Lease {
	renewed, holder, seconds := metav1.NewMicroTime(time.Unix(60, 0)), "pod", int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "node-drainer", Labels: labels, Annotations: map[string]string{"node-drainer.io/cluster": "prod"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &seconds},
	}
}

// TestAgents: the agents of the own namespace are found, and without any those of the cluster, where that is allowed.
func TestAgents(t *testing.T) {
	t.Parallel()
	labels := map[string]string{lead.AgentLabel: "true"}
	for name, tt := range map[string]struct {
		namespace string
		forbidden bool
		want      int
		err       bool
	}{
		"all may be listed": {"", false, 2, false}, "those of the own namespace": {"kube-system", true, 1, false},
		"none, and in no pod":       {"", true, 0, true},
		"none in the own namespace": {"other", false, 2, false}, "nor elsewhere": {"other", true, 0, true},
		"enough in the own namespace": {"drain", false, 1, false},
	} {
		client := fake.NewClientset(agentLease("kube-system", labels), agentLease("drain", labels), agentLease("other", nil))
		client.PrependReactor("list", "leases", func(a ktesting.Action) (bool, runtime.Object, error) {
			if tt.forbidden && a.GetNamespace() == "" {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("no"))
			}
			return false, nil, nil
		})
		v := New(client)
		v.Namespace = tt.namespace
		agents, err := v.Agents(t.Context())
		if len(agents) != tt.want || (err != nil) != tt.err {
			t.Errorf("%s: %+v, %v", name, agents, err)
		}
		for _, a := range agents {
			if a.Cluster != "prod" || !a.Renewed.Equal(time.Unix(60, 0)) || a.Holds != 15*time.Second {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}
