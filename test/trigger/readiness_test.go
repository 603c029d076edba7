package trigger

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// knownNodes is the kubeconfig of an API server that only knows Ready nodes of these instances, with the label of their
// instance.
func knownNodes(t *testing.T, instances ...string) (file string) {
	t.Helper()
	list := corev1.NodeList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	for _, id := range instances {
		list.Items = append(list.Items, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: "node-" + id, ResourceVersion: "1", Labels: map[string]string{"instance": id},
			},
			Spec: corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/" + id},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case r.URL.Path != "/api/v1/nodes" || query.Has("sendInitialEvents"):
			http.Error(w, "not simulated", http.StatusBadRequest)
		case query.Has("watch"):
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfig(t, server.URL)
}

// TestReadyTimeout: new instances that do not become nodes end the rollout.
func TestReadyTimeout(t *testing.T) {
	t.Parallel()
	const late = `new instances? (is|are) in service without a ready node for 2s \(--ready-timeout\): i-\w+ \(no node\)`
	for mode, tt := range map[string]struct {
		args []string
		want string
		call string
	}{
		"refresh": {
			[]string{"--checkpoints", "50,100", "--checkpoint-delay", "1m"},
			late + `.*is Cancelled.*replaced instances are kept`, "CancelInstanceRefresh",
		},
		"unhealthy": {nil, late + `.*no further ones are marked`, "SetInstanceHealth"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, launchFirst(4))
			var ids []string
			for _, i := range a.waitInService(group, 4) {
				ids = append(ids, i.ID)
			}
			env := []string{"KUBECONFIG=" + knownNodes(t, ids...)}
			a.triggerWith(env, append(tt.args, "--mode", mode, "--ready-timeout", "2s")...).waitExit(3, tt.want)
			if calls := a.changes(); calls[tt.call] != 1 {
				t.Errorf("the trigger called %v", calls)
			}
		})
	}
}

// TestExcludedInstancesAreProtected: an instance that is not replaced is protected from scale in until the rollout ends, or is
// interrupted.
func TestExcludedInstancesAreProtected(t *testing.T) {
	t.Parallel()
	a := newAccount(t, launchFirst(1))
	id := a.waitInService(group, 1)[0].ID
	env := []string{"KUBECONFIG=" + knownNodes(t, id)}
	_, err := a.autoScaling().SetDesiredCapacity(t.Context(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(2),
	})
	a.must(err)
	a.waitInService(group, 2)
	a.addVersion(template, "ami-3")
	r := a.triggerWith(env, "--mode", "unhealthy", "--exclude-node-label", "instance="+id)
	r.waitOutput("marked unhealthy")
	r.Signal(os.Interrupt)
	r.waitExit(130, "protected from scale in for the rollout: "+id, "not protected from scale in any more: "+id)
	out, err := a.autoScaling().DescribeAutoScalingInstances(t.Context(), &autoscaling.DescribeAutoScalingInstancesInput{
		InstanceIds: []string{id},
	})
	a.must(err)
	for _, i := range out.AutoScalingInstances {
		if *i.ProtectedFromScaleIn {
			t.Errorf("%s is still protected", *i.InstanceId)
		}
	}
}
