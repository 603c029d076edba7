//go:build e2e

package docs

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/test/chart"
)

// TestTheHelmCommands: the chart takes the values that pages give it, from the command line and in files, and what
// it makes of them is a configuration of the agent without mistakes.
func TestTheHelmCommands(t *testing.T) {
	t.Parallel()
	found := 0
	for _, install := range Installs(t) {
		var agent appsv1.Deployment
		if chart.Find(install.Objects, "Deployment", "node-drainer", &agent) != nil {
			continue // a command that shows only a part
		}
		found++
		env := append(Environment(agent.Spec.Template.Spec), "POD_NAMESPACE=agents")
		if _, err := config.ReadAgent(env); err != nil {
			t.Errorf("%s: %v", install.Page, err)
		}
	}
	if found < 4 {
		t.Errorf("only %d installations were found", found)
	}
	for page, text := range Pages(t) {
		for _, block := range Blocks(text, "sh") {
			for _, command := range block.Commands() {
				_, args, ours := strings.Cut("| "+command, "| helm ")
				if !ours {
					continue
				}
				if _, err := chart.Helm(t.Context(), nil, append(strings.Fields(args), "--help")...); err != nil {
					t.Errorf("%s: helm does not understand %q: %v", page, command, err)
				}
			}
		}
	}
}
