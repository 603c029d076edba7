package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
)

// sentinels are the pods that watch the group under one name.
type sentinels struct {
	call *call
	name string
	all  []*sentinel
}

// sentinel is one of them, and what it says.
type sentinel struct {
	workload.Pod
	server   *server
	err      error   // it did not answer
	leader   address // what it tells clients
	watches  address // the leader that it watches: the former one until it has ended a failover
	failover bool    // It fails over from that leader.
	replicas []watched
	others   []watched // other sentinels
}

// watched is what a sentinel knows of a replica or another sentinel.
type watched struct {
	address
	down  bool
	fresh bool // The sentinel is connected to it, and has its state.
}

// sentinelPods returns the pods that are sentinels: those that the annotation selects, or otherwise the pod and the
// ones alike that have a port for it.
func (c *call) sentinelPods() (pods []workload.Pod) {
	selects, err := labels.Parse(c.request.Pod.Annotations[workload.SentinelsAnnotation])
	all := append([]workload.Pod{c.request.Pod}, c.request.Peers...)
	for _, pod := range all {
		_, named := sentinelPort(pod)
		switch {
		case pod.Namespace != c.request.Pod.Namespace:
		case err == nil && !selects.Empty():
			if selects.Matches(labels.Set(pod.Labels)) {
				pods = append(pods, pod)
			}
		case named && pod.IsAlike(c.request.Pod) && (pod.UID == c.request.Pod.UID || hasController(pod, c.request.Pod)):
			pods = append(pods, pod)
		}
	}
	return pods
}

// sentinels connects to all sentinels and asks what they know.
func (c *call) sentinels(ctx context.Context) (*sentinels, error) {
	w := &sentinels{call: c, name: c.request.Pod.Annotations[workload.MasterAnnotation]}
	for _, pod := range c.sentinelPods() {
		if w.all = append(w.all, &sentinel{Pod: pod}); len(w.all) > 1 && !hasController(pod, w.all[0].Pod) {
			return nil, fmt.Errorf("%s and %s do not have the same controller: all pods that %s selects must, "+
				"since they get the password", w.all[0].Name, pod.Name, workload.SentinelsAnnotation)
		}
	}
	each(w.all, func(s *sentinel) { s.server, s.err = c.session.sentinel(ctx, s.Pod, c.request.Pod) })
	slices.SortStableFunc(w.all, func(a, b *sentinel) int { return cmp.Compare(rank(a), rank(b)) })
	if err := w.findName(ctx); err != nil {
		return nil, err
	}
	w.ask(ctx)
	return w, nil
}

// rank orders the sentinels: those that stay come first.
func rank(s *sentinel) int {
	if s.Stays && !s.Deleting {
		return 0
	}
	return 1
}

// isName reports whether SENTINEL RESET would take the text for the name of one master: others are patterns.
func isName(text string) bool { return text != "" && !strings.ContainsAny(text, `*?[\`) }

// findName finds the name of the master, if no annotation says it.
func (w *sentinels) findName(ctx context.Context) error {
	switch {
	case w.name != "" && !isName(w.name):
		return invalid("%s: the name %q contains a wildcard", workload.MasterAnnotation, w.name)
	case w.name != "":
		return nil
	}
	err := fmt.Errorf("no sentinel answers")
	for _, s := range w.all {
		var value resp.Value
		if s.err != nil {
			err = s.err
			continue
		}
		if value, err = s.server.do(ctx, "SENTINEL", "MASTERS"); err != nil {
			continue
		}
		if len(value.Elements) != 1 {
			return invalid("%s watches %d masters: name one of them in %s", s.Name, len(value.Elements),
				workload.MasterAnnotation)
		}
		if w.name = pairs(value.Elements[0])["name"]; !isName(w.name) {
			return fmt.Errorf("%s watches a master named %q: no name may have a wildcard", s.Name, w.name)
		}
		return nil
	}
	return err
}

// ask asks all sentinels what they know.
func (w *sentinels) ask(ctx context.Context) {
	each(w.all, func(s *sentinel) {
		if s.server != nil {
			s.err = s.ask(ctx, w.name)
		}
	})
}

func (s *sentinel) ask(ctx context.Context, name string) (err error) {
	value, err := s.server.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
	if err != nil {
		return err
	}
	if len(value.Elements) != 2 {
		return fmt.Errorf("%s watches no master named %q", s.Name, name)
	}
	s.leader = address{value.Elements[0].Text, value.Elements[1].Text}
	if value, err = s.server.do(ctx, "SENTINEL", "MASTER", name); err != nil {
		return err
	}
	fields := pairs(value)
	s.watches = address{fields["ip"], fields["port"]}
	s.failover = lists(fields["flags"], "failover_in_progress")
	if s.replicas, err = s.list(ctx, "REPLICAS", name); err != nil {
		return err
	}
	s.others, err = s.list(ctx, "SENTINELS", name)
	return err
}

// list asks for replicas or other sentinels.
func (s *sentinel) list(ctx context.Context, what, name string) (all []watched, err error) {
	value, err := s.server.do(ctx, "SENTINEL", what, name)
	if err != nil {
		return nil, err
	}
	for _, element := range value.Elements {
		fields := pairs(element)
		flags := fields["flags"]
		all = append(all, watched{
			address: address{fields["ip"], fields["port"]},
			down:    lists(flags, "s_down") || lists(flags, "o_down"),
			fresh:   !lists(flags, "disconnected") && number(fields["info-refresh"]) > 0,
		})
	}
	return all, nil
}

// pairs returns the fields of an array of names and values.
func pairs(v resp.Value) map[string]string {
	fields := map[string]string{}
	for pair := range slices.Chunk(v.Elements, 2) {
		if len(pair) == 2 {
			fields[pair[0].Text] = pair[1].Text
		}
	}
	return fields
}

// known returns all addresses that the sentinels name as members of the group.
func (w *sentinels) known() (all []address) {
	for _, s := range w.all {
		all = append(all, s.leader)
		for _, r := range s.replicas {
			all = append(all, r.address)
		}
	}
	return all
}

// leader returns the member that a majority of the sentinels names.
func (w *sentinels) leader(g *group) (*member, error) {
	votes := map[*member]int{}
	problem := underway("the sentinels do not agree about the master %s", w.name)
	for _, s := range w.all {
		if s.err != nil {
			problem = behind("%v", s.err)
			continue
		}
		m := g.at(s.leader)
		if votes[m]++; m != nil && votes[m] > len(w.all)/2 {
			return m, nil
		}
	}
	if votes[nil] > len(w.all)/2 {
		return nil, behind("the sentinels name a master that is no pod of the namespace with the same annotations")
	}
	return nil, problem
}

// waitLeader waits until a majority names a member.
func (w *sentinels) waitLeader(ctx context.Context, g *group, leader *member) error {
	return poll(ctx, agreeTimeout, func() error {
		w.ask(ctx)
		named, err := w.leader(g)
		if err == nil && named != leader {
			err = underway("the sentinels do not name %s yet", leader.Name)
		}
		return err
	})
}

// withQuorum returns a sentinel that watches the leader and the targets, and reaches enough others to fail over. One
// that has not ended the failover to the leader yet cannot begin another one.
func (w *sentinels) withQuorum(ctx context.Context, leader *member, targets []*member) (*sentinel, error) {
	err := underway("no sentinel watches all replicas of %s yet", leader.Name)
	for _, s := range w.all {
		if !s.isWatching(leader) || !s.canPromote(targets) {
			continue
		}
		if _, err = s.server.do(ctx, "SENTINEL", "CKQUORUM", w.name); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// canPromote reports whether a sentinel would promote any of the members.
func (s *sentinel) canPromote(targets []*member) bool {
	for _, m := range targets {
		if !slices.ContainsFunc(s.replicas, func(r watched) bool { return m.isAt(r.address) && !r.down && r.fresh }) {
			return false
		}
	}
	return true
}

// isFailingOver reports whether a sentinel fails over from the leader already.
func (w *sentinels) isFailingOver(leader *member) bool {
	return slices.ContainsFunc(w.all, func(s *sentinel) bool { return s.isWatching(leader) && s.failover })
}

func (s *sentinel) isWatching(leader *member) bool {
	return s.err == nil && leader.isAt(s.leader) && leader.isAt(s.watches)
}
