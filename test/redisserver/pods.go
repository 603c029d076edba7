package redisserver

import (
	"slices"
	"strconv"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// number parses an integer; what is none is 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// Request asks for the release of the pod of a server. The pods are each on a node of their own; those of leaving are
// on nodes that do not stay.
func (g *Group) Request(s *Server, leaving ...*Server) workload.Request {
	r := workload.Request{Pod: pod(g, s)}
	for _, other := range running(g) {
		if other == s {
			continue
		}
		peer := pod(g, other)
		peer.Stays = !slices.Contains(leaving, other)
		r.Peers = append(r.Peers, peer)
	}
	return r
}

// pod returns the pod of a server.
func pod(g *Group, s *Server) workload.Pod {
	p := workload.Pod{
		Namespace: "default", Name: s.Name, UID: s.Name, IP: s.IP(), Node: "node-of-" + s.Name, Ready: true,
		Labels: map[string]string{"app": "sentinel"}, Controller: "StatefulSet/sentinel", ControllerUID: "sentinel",
	}
	if s.Sentinel {
		return p
	}
	p.Labels, p.Controller, p.ControllerUID = map[string]string{"app": "redis"}, "StatefulSet/redis", "redis"
	p.Annotations = map[string]string{handover.KindAnnotation: handover.HTTPKind, workload.SecretAnnotation: "redis"}
	if g.Spare != nil {
		p.Annotations[workload.SurgeAnnotation] = "true"
	}
	if s.Prefer {
		p.Annotations[workload.PreferAnnotation] = "true"
	}
	if len(g.Sentinels) > 0 {
		p.Annotations[workload.SentinelsAnnotation] = "app=sentinel"
		p.Annotations[workload.MasterAnnotation] = Master
	}
	return p
}
