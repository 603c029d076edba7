package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/lead"
)

// mostAgents is how many Leases of agents are read.
const mostAgents = 100

// Agents returns the agents whose Leases are in the own namespace, which is empty where the process runs in no pod. If
// there is none, it returns those of the cluster.
func (v *View) Agents(ctx context.Context) (agents []lead.Agent, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if v.Namespace != "" {
		agents, err = v.agentsIn(ctx, v.Namespace)
	}
	if len(agents) > 0 {
		return agents, err
	}
	return v.agentsIn(ctx, metav1.NamespaceAll)
}

func (v *View) agentsIn(ctx context.Context, namespace string) (agents []lead.Agent, err error) {
	options := metav1.ListOptions{LabelSelector: lead.AgentLabel, Limit: mostAgents}
	list, err := v.client.CoordinationV1().Leases(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list the Leases of agents: %w", err)
	}
	for i := range list.Items {
		if a, is := lead.AgentOf(&list.Items[i]); is {
			agents = append(agents, a)
		}
	}
	return agents, nil
}
