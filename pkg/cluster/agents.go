package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/pkg/lead"
)

// mostAgents is how many Leases of agents are read.
const mostAgents = 100

// Agents returns the agents of the cluster whose Leases may be listed: all, or those in the own namespace, which is
// empty where the process runs in no pod.
func (v *View) Agents(ctx context.Context) (agents []lead.Agent, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	options := metav1.ListOptions{LabelSelector: lead.AgentLabel, Limit: mostAgents}
	list, err := v.client.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, options)
	if apierrors.IsForbidden(err) && v.Namespace != "" {
		list, err = v.client.CoordinationV1().Leases(v.Namespace).List(ctx, options)
	}
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
