//go:build e2e

package migrate

import (
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/test/chart"
	"github.com/node-drainer/node-drainer/test/docs"
)

// TestChart: the chart takes the values, and what it makes of them is a configuration of the agent without mistakes.
func TestChart(t *testing.T) {
	t.Parallel()
	for _, peer := range Peers() {
		if peer.Name == "eks-rolling-update" {
			continue
		}
		t.Run(peer.Name, func(t *testing.T) {
			t.Parallel()
			objects, err := chart.Render(t.Context(), "node-drainer", "agents", "--values", "testdata/to/"+peer.Name,
				"--set", "config.clusterName=prod,config.queue.url=https://sqs.example.com/1/q,image.registry=registry.example.com")
			if err != nil {
				written, _ := os.ReadFile("testdata/to/" + peer.Name)
				t.Fatalf("%v in\n%s", err, written)
			}
			var agent appsv1.Deployment
			if err := chart.Find(objects, "Deployment", "node-drainer", &agent); err != nil {
				t.Fatal(err)
			}
			env := append(docs.Environment(agent.Spec.Template.Spec), "POD_NAMESPACE=agents")
			if _, err := config.ReadAgent(env); err != nil {
				t.Error(err)
			}
			if peer.Name == "aws-asg-roller" {
				var watch appsv1.Deployment
				if err := chart.Find(objects, "Deployment", "node-drainer-watch", &watch); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
