package redisserver

import (
	"slices"
	"strconv"

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
func (g *Group) Request(s *Server, leaving ...*Server) handover.Request {
	r := handover.Request{Pod: pod(g, s)}
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
func pod(g *Group, s *Server) handover.Pod {
	p := handover.Pod{
		Namespace: "default", Name: s.Name, UID: s.Name, IP: s.IP(), Node: "node-of-" + s.Name, Ready: true,
		Labels: map[string]string{"app": "sentinel"},
	}
	if s.Sentinel {
		return p
	}
	p.Labels = map[string]string{"app": "redis"}
	p.Annotations = map[string]string{handover.KindAnnotation: "redis", handover.SecretAnnotation: "redis"}
	if g.Spare != nil {
		p.Controller, p.Annotations[handover.SurgeAnnotation] = "StatefulSet/redis", "true"
	}
	if s.Prefer {
		p.Annotations[handover.PreferAnnotation] = "true"
	}
	if len(g.Sentinels) > 0 {
		p.Annotations[handover.SentinelsAnnotation] = "app=sentinel"
		p.Annotations[handover.MasterAnnotation] = Master
	}
	return p
}
