package redis

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// member is a pod of the group, and what its Redis says.
type member struct {
	workload.Pod
	port   string
	server *server // usable unless err is set
	err    error   // it did not answer
	replication
}

// ask asks a member for its state of replication, and returns its err.
func (m *member) ask(ctx context.Context, s *session) error {
	if m.server, m.err = s.redis(ctx, m.Pod); m.err == nil {
		m.replication, m.err = m.server.replication(ctx)
	}
	return m.err
}

// isAt reports whether an address that Redis names is the one of the member: its IP, or a host name that begins with
// the name of the pod.
func (m *member) isAt(a address) bool { return a.port == m.port && isHost(a.host, m.Pod) }

// isHost reports whether a host that Redis names is a pod.
func isHost(host string, pod workload.Pod) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		own, err := netip.ParseAddr(pod.IP)
		return err == nil && ip.Unmap() == own.Unmap()
	}
	name, _, _ := strings.Cut(host, ".")
	return name != "" && name == pod.Name
}

// group is the pod that is to be released and the other pods that replicate the same data.
type group struct {
	session *session
	self    *member
	others  []*member
}

// survey asks the pod, and all pods that may be of its group, for their state. The addresses are known to be of the
// group.
func (c *call) survey(ctx context.Context, known ...address) (*group, error) {
	g := &group{session: c.session, self: newMember(c.request.Pod)}
	if err := g.self.ask(ctx, c.session); err != nil {
		return nil, err
	}
	named := append(slices.Clone(known), g.self.names()...)
	var asked []*member
	for more := c.candidates(named, nil); len(more) > 0; more = c.candidates(named, asked) {
		askAll(ctx, c.session, more)
		for _, m := range more {
			named = append(named, m.names()...)
		}
		asked = append(asked, more...)
	}
	g.others = related(g.self, asked, known)
	return g, nil
}

// names returns the addresses that the Redis of a member names: those of its replicas and of its leader.
func (m *member) names() (all []address) {
	for _, r := range m.replicas {
		all = append(all, r.address)
	}
	if !m.master && m.leader.host != "" {
		all = append(all, m.leader)
	}
	return all
}

// refresh asks all members again.
func (g *group) refresh(ctx context.Context) error {
	askAll(ctx, g.session, append([]*member{g.self}, g.others...))
	return g.self.err
}

func newMember(pod workload.Pod) *member {
	port, err := redisPort(pod)
	return &member{Pod: pod, port: strconv.Itoa(int(port)), err: err}
}

// candidates returns the pods of the namespace that may be of the group: those that ask for the same hand-over as the
// pod does, have its controller or an address that a member names, and were not asked before. Others do not get the
// password.
func (c *call) candidates(named []address, asked []*member) (pods []*member) {
	for _, peer := range c.request.Peers {
		wasAsked := slices.ContainsFunc(asked, func(m *member) bool { return m.UID == peer.UID })
		if wasAsked || peer.Namespace != c.request.Pod.Namespace || !peer.IsAlike(c.request.Pod) {
			continue
		}
		m := newMember(peer)
		if hasController(peer, c.request.Pod) || isAtAny(m, named) {
			pods = append(pods, m)
		}
	}
	return pods
}

// hasController reports whether two pods have the same controller.
func hasController(a, b workload.Pod) bool {
	return a.ControllerUID != "" && a.ControllerUID == b.ControllerUID
}

// askAll asks several members at once. A connection is used by one of them alone.
func askAll(ctx context.Context, s *session, members []*member) {
	each(members, func(m *member) { _ = m.ask(ctx, s) })
}

// each calls do for all items, for eight of them at once.
func each[T any](items []T, do func(T)) {
	var all sync.WaitGroup
	free := make(chan struct{}, 8)
	for _, item := range items {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			do(item)
		})
	}
	all.Wait()
}

// related returns those candidates that replicate from or to the pod, directly or through another one, or that are at
// a known address. A pod that does not answer belongs to the group if its StatefulSet does.
func related(self *member, candidates []*member, known []address) []*member {
	in := []*member{self}
	isIn := func(m *member) bool { return slices.Contains(in, m) }
	for grown := true; grown; {
		grown = false
		for _, m := range candidates {
			if !isIn(m) && (isAtAny(m, known) || slices.ContainsFunc(in, m.replicates)) {
				in, grown = append(in, m), true
			}
		}
	}
	for _, m := range candidates {
		if !isIn(m) && m.err != nil && slices.ContainsFunc(in, m.isSibling) {
			in = append(in, m)
		}
	}
	return in[1:]
}

func isAtAny(m *member, addresses []address) bool { return slices.ContainsFunc(addresses, m.isAt) }

// replicates reports whether one of two members replicates from the other.
func (m *member) replicates(other *member) bool {
	if m.err != nil || other.err != nil {
		return false
	}
	return m.isAt(other.leader) || other.isAt(m.leader)
}

// isSibling reports whether two pods are of one StatefulSet, by their names without the ordinals.
func (m *member) isSibling(other *member) bool {
	a, b := strings.LastIndexByte(m.Name, '-'), strings.LastIndexByte(other.Name, '-')
	return a > 0 && b > 0 && m.Name[:a] == other.Name[:b]
}

// at returns the member at an address that Redis names, or nil.
func (g *group) at(a address) *member {
	for _, m := range append([]*member{g.self}, g.others...) {
		if m.isAt(a) {
			return m
		}
	}
	return nil
}

// checkWhole returns an error unless all members but the pod itself are in sync with a leader, and none is being
// deleted.
func (g *group) checkWhole(leader *member) error {
	for _, m := range append([]*member{leader}, g.others...) {
		switch {
		case m.Deleting:
			return behind("%s is being deleted", m.Name)
		case m.err != nil:
			return behind("%v", m.err)
		case m != leader && !leader.isAt(m.leader):
			return behind("%s does not replicate from %s", m.Name, leader.Name)
		case m != leader && (!m.inSync || leader.offset-m.offset > maxLag):
			return behind("%s is not in sync: %d bytes behind %s", m.Name, leader.offset-m.offset, leader.Name)
		}
	}
	return nil
}

// targets returns the replicas that could lead instead of the pod now: the preferred ones first, then those that are
// least behind. The error says why there is none. Only a last call uses a member that leaves soon.
func (g *group) targets(last bool) ([]*member, error) {
	usable, why := g.usable(g.others, last)
	slices.SortStableFunc(usable, func(a, b *member) int {
		if a.prefers() != b.prefers() {
			return map[bool]int{true: -1, false: 1}[a.prefers()]
		}
		return int(b.offset - a.offset)
	})
	switch {
	case len(usable) > 0:
		return usable, nil
	case why != nil:
		return nil, why
	case len(g.self.replicas) > 0:
		return nil, fmt.Errorf("the replica %s of %s is no pod of the namespace with the same annotations",
			g.self.replicas[0].host, g.self.Name)
	}
	return nil, noReplica("no replica")
}

// usable returns those members that could lead instead of the pod now, and why another one could not.
func (g *group) usable(members []*member, last bool) (usable []*member, why error) {
	for _, m := range members {
		if problem := g.target(m, last); problem != nil {
			why = problem
			continue
		}
		usable = append(usable, m)
	}
	return usable, why
}

// target returns why a member cannot lead instead of the pod now.
func (g *group) target(m *member, last bool) error {
	at := slices.IndexFunc(g.self.replicas, func(c connected) bool { return m.isAt(c.address) })
	switch {
	case m.err != nil:
		return behind("%v", m.err)
	case m.Deleting:
		return behind("%s is being deleted", m.Name)
	case !m.Stays && !last:
		return behind("%s is on a node that does not stay", m.Name)
	case at < 0 || !g.self.replicas[at].online || !m.inSync:
		return behind("%s is not in sync", m.Name)
	case g.self.offset-m.offset > maxLag || g.self.replicas[at].lag > maxSilence:
		return behind("%s is %d bytes behind, and has been silent for %d s", m.Name, g.self.offset-m.offset,
			g.self.replicas[at].lag)
	}
	return nil
}

// prefers reports whether a member is to lead when it can.
func (m *member) prefers() bool { return m.Annotations[workload.PreferAnnotation] == "true" }

// noReplica returns the answer that nobody could take over.
func noReplica(format string, args ...any) error {
	return &putOff{outcome: handover.NoReplica, message: fmt.Sprintf(format, args...)}
}
