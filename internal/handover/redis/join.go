package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
)

// joiner is a member of a cluster, or one that is to become one, and what it says of its cluster: which need not work.
type joiner struct {
	*member
	clusterState
}

// askJoiner asks a pod what it says of its cluster.
func askJoiner(ctx context.Context, c *call, pod workload.Pod) (*joiner, error) {
	j := &joiner{member: newMember(pod)}
	if err := j.member.ask(ctx, c.session); err != nil {
		return nil, behind("%v", err)
	}
	return j, j.ask(ctx)
}

func (j *joiner) ask(ctx context.Context) (err error) {
	j.clusterState, err = askNodes(ctx, j.server)
	return err
}

// id returns the ID of a member.
func (j *joiner) id() string { return j.myself().id }

// node returns what a member says of the node with an ID; the zero clusterNode if it does not know it.
func (j *joiner) node(id string) clusterNode {
	for _, n := range j.nodes {
		if n.id == id {
			return n
		}
	}
	return clusterNode{}
}

// meets reports whether a member knows the node with an ID.
func (j *joiner) meets(id string) bool {
	n := j.node(id)
	return n.id != "" && !n.is("handshake") && !n.is("noaddr")
}

// join makes a member that serves no slots a replica of a leader, unless it is in another cluster, whose nodes it would
// bring along.
func (j *joiner) join(ctx context.Context, leader *joiner) error {
	switch {
	case j.myself().slots || len(j.replicas) > 0:
		return behind("%s leads", j.Name)
	case j.isElsewhere(leader):
		return behind("%s is in another cluster than %s", j.Name, leader.Name)
	}
	if err := j.meet(ctx, leader); err != nil {
		return err
	}
	if j.myself().leader != leader.id() {
		if _, err := j.server.do(ctx, "CLUSTER", "REPLICATE", leader.id()); err != nil {
			return err
		}
	}
	return joining(j.member, leader.Pod)
}

// isElsewhere reports whether a member knows nodes that the leader does not know, which does not know the member.
func (j *joiner) isElsewhere(leader *joiner) bool {
	return !leader.meets(j.id()) && slices.ContainsFunc(j.nodes, func(n clusterNode) bool {
		return !n.is("myself") && !n.is("handshake") && leader.node(n.id).id == ""
	})
}

// meet has a member and a leader know each other.
func (j *joiner) meet(ctx context.Context, leader *joiner) error {
	met := func() error {
		if err := j.ask(ctx); err != nil {
			return err
		}
		if err := leader.ask(ctx); err != nil {
			return err
		}
		if !leader.meets(j.id()) || !j.meets(leader.id()) {
			return joining(j.member, leader.Pod)
		}
		return nil
	}
	if met() == nil {
		return nil
	}
	if _, err := j.server.do(ctx, "CLUSTER", "MEET", leader.IP, leader.port, leader.myself().bus); err != nil {
		return err
	}
	return poll(ctx, agreeTimeout, met)
}

// reset has a member that leads nothing forget its cluster and its data.
func (j *joiner) reset(ctx context.Context) error {
	if j.myself().slots || len(j.replicas) > 0 {
		return behind("%s leads", j.Name)
	}
	if _, err := j.server.do(ctx, "CLUSTER", "RESET", "HARD"); err != nil {
		return err
	}
	return j.ask(ctx)
}

// joinCluster has an additional pod become a replica of the pod. If its volume is left from an earlier surge, it leaves
// the cluster of that time first.
func joinCluster(ctx context.Context, v *clusterView, added *member) error {
	for _, n := range v.nodes {
		if v.group.at(n.address) == nil && !n.failed() {
			return noReplica("the node at %s is no pod of the namespace with the same annotations: it could not forget %s",
				printable(n.host), added.Name)
		}
	}
	leader := &joiner{v.group.self, v.clusterState}
	j := &joiner{member: added}
	if err := j.ask(ctx); err != nil {
		return err
	}
	if j.isElsewhere(leader) {
		if err := j.reset(ctx); err != nil {
			return err
		}
	}
	return j.join(ctx, leader)
}

// askNodes asks a node which nodes it knows.
func askNodes(ctx context.Context, s *server) (state clusterState, err error) {
	value, err := s.do(ctx, "CLUSTER", "NODES")
	if err != nil {
		return clusterState{}, err
	}
	for line := range strings.Lines(value.Text) {
		if fields := strings.SplitN(strings.TrimSpace(line), " ", 9); len(fields) >= 8 {
			state.nodes = append(state.nodes, clusterNodeOf(fields))
		}
	}
	if state.myself().id == "" {
		return clusterState{}, fmt.Errorf("%s does not list itself in CLUSTER NODES", s.pod)
	}
	return state, nil
}

// clusterNodeOf parses the fields of a line: ID, IP:PORT@BUS-PORT[,HOST NAME], flags, ID of the leader, ping sent, pong
// received, epoch, link, and all slots as one.
func clusterNodeOf(fields []string) clusterNode {
	at, rest, _ := strings.Cut(fields[1], "@")
	bus, _, _ := strings.Cut(rest, ",")
	host, port := at, ""
	if i := strings.LastIndexByte(at, ':'); i >= 0 {
		host, port = at[:i], at[i+1:]
	}
	return clusterNode{
		address: address{host, port}, bus: bus, id: fields[0], flags: fields[2], leader: fields[3],
		heard: time.UnixMilli(int64(number(fields[5]))), linked: fields[7] == "connected",
		slots: len(fields) > 8,
	}
}
