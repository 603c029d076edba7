package plan

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// agentFacts are which of the group's hooks a live agent answers.
func agentFacts(
	agents []lead.Agent, err error, g refresh.Group, hooks []refresh.Hook, now time.Time,
) *refresh.AgentFacts {
	facts, clusters := &refresh.AgentFacts{Unknown: err}, refresh.ClustersOf(g.Tags)
	for _, a := range agents {
		if !a.IsLive(now) {
			facts.Stopped = append(facts.Stopped, a.Lease)
			continue
		}
		facts.Live = append(facts.Live, a.Lease)
		if len(clusters) > 0 && !slices.Contains(clusters, a.Cluster) {
			continue
		}
		for _, h := range hooks {
			if a.Answers(h.Name, h.Target) && !slices.Contains(facts.Answered, h.Name) {
				facts.Answered = append(facts.Answered, h.Name)
			}
		}
	}
	return facts
}
