package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/event"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const instance = "i-0123456789abcdef0"

var defaults = Config{
	TaintKey: "node-drainer.io/terminating", TaintEffect: "NoSchedule", Cordon: true, ExcludeFromLB: Early,
	RegistrationTimeout: 5 * time.Minute,
}

func at(offset time.Duration) time.Time { return t0.Add(offset) }

func with(changes ...func(*Config)) Config {
	cfg := defaults
	for _, change := range changes {
		change(&cfg)
	}
	return cfg
}

func late(c *Config)     { c.ExcludeFromLB = Late }
func off(c *Config)      { c.ExcludeFromLB = Off }
func noCordon(c *Config) { c.Cordon = false }

// newNode returns the Node of the instance, which the changes make what the row needs.
func newNode(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "uid-1", ResourceVersion: "7", Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/" + instance},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func booted(id string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.NodeInfo.BootID = id }
}

func labelled(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "true" }

func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "v", Effect: effect})
	}
}

func marked(text string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[Annotation] = text }
}

func markOf(m Mark) func(*corev1.Node) {
	m.InstanceID = instance
	return marked(m.encode())
}

// golden compares a patch with JSON in which the mark is not quoted.
func golden(t *testing.T, p patch, want string) {
	t.Helper()
	if p == nil {
		if want != "" {
			t.Fatalf("got no patch, want %s", want)
		}
		return
	}
	if annotations, ok := p["metadata"]["annotations"].(map[string]any); ok {
		if text, ok := annotations[Annotation].(string); ok {
			annotations[Annotation] = json.RawMessage(text)
		}
	}
	body, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Error(diff)
	}
}

func TestCordonPatch(t *testing.T) {
	const (
		label  = `"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":"true"}`
		taint  = `{"key":"node-drainer.io/terminating","value":"lifecycle-terminating","effect":"NoSchedule"}`
		cordon = `"unschedulable":true`
	)
	mark := func(put string) string {
		return `"annotations":{"node-drainer.io/termination":{"instance":"` + instance + `","reason":"lifecycle-terminating",` +
			`"hook":"g/h","token":"t1","since":"2026-01-02T03:04:05Z","deadline":"2026-01-02T04:04:05Z","added":` + put + `}}`
	}
	reason := Reason{Kind: "lifecycle-terminating", Hook: "g/h", Token: "t1", Deadline: at(time.Hour)}
	done := Mark{
		Reason: "lifecycle-terminating", Hook: "g/h", Token: "t1", Since: t0, Deadline: at(time.Hour), Added: []string{"taint"},
	}
	ours := tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule)
	check := func(name string, node *corev1.Node, cfg Config, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			before := node.DeepCopy()
			p, mark := cordonPatch(node, cfg, reason, t0)
			if diff := cmp.Diff(before, node); diff != "" {
				t.Errorf("the cached Node was changed:\n%s", diff)
			}
			golden(t, p, want)
			if mark.InstanceID != instance || !mark.Since.Equal(t0) || !mark.Deadline.Equal(at(time.Hour)) {
				t.Errorf("got the mark %+v", mark)
			}
		})
	}
	check("a healthy node: taint, cordon, label and the mark in one patch", newNode(), defaults,
		`{"metadata":{`+mark(`["taint","taint=node-drainer.io/terminating:NoSchedule","cordon","label"]`)+`,`+label+`},"spec":{"taints":[`+taint+`],`+cordon+`}}`)
	check("other taints stay", newNode(tainted("other", corev1.TaintEffectNoExecute)), with(noCordon, off),
		`{"metadata":{`+mark(`["taint","taint=node-drainer.io/terminating:NoSchedule"]`)+`},"spec":{"taints":[{"key":"other","value":"v","effect":"NoExecute"},`+taint+`]}}`)
	check("what the node has already is not recorded as added", newNode(cordoned, labelled, ours), defaults,
		`{"metadata":{`+mark(`null`)+`},"spec":{}}`)
	check("the label is not added if the configuration says late", newNode(cordoned), with(late),
		`{"metadata":{`+mark(`["taint","taint=node-drainer.io/terminating:NoSchedule"]`)+`},"spec":{"taints":[`+taint+`]}}`)
	check("a cordoned node is not patched", newNode(cordoned, labelled, ours, markOf(done)), defaults, "")
	check("what another client has removed is added again", newNode(labelled, ours, markOf(done)), defaults,
		`{"metadata":{`+mark(`["taint","cordon"]`)+`},"spec":{`+cordon+`}}`)
	check("the boot id is not recorded of an instance that terminates", newNode(cordoned, labelled, ours, booted("boot-1")), defaults,
		`{"metadata":{`+mark(`null`)+`},"spec":{}}`)
	check("a mark that cannot be parsed is replaced", newNode(cordoned, labelled, ours, marked("{")), defaults,
		`{"metadata":{`+mark(`null`)+`},"spec":{}}`)
	check("the mark of another instance with the same node name is replaced",
		newNode(cordoned, labelled, ours, marked(`{"instance":"i-old","since":"2020-01-01T00:00:00Z","added":["taint"]}`)), defaults,
		`{"metadata":{`+mark(`null`)+`},"spec":{}}`)
}

// TestCordonForABoot: the mark has the boot id of the Node until the instance has booted.
func TestCordonForABoot(t *testing.T) {
	reason := Reason{Kind: "spot", Hook: "g/h", Token: "t1", Reboots: true}
	node := newNode(booted("boot-1"))
	check := func(name, id string, awaits bool) {
		t.Helper()
		_, mark := cordonPatch(node, defaults, reason, t0)
		markOf(mark)(node)
		if got := nodeOf(trimmed(t, node)); got.Mark.BootID != id || got.AwaitsBoot() != awaits {
			t.Errorf("%s: got %+v, awaits a boot: %v", name, got, got.AwaitsBoot())
		}
	}
	check("cordoned", "boot-1", true)
	booted("boot-2")(node)
	check("a copy of the message after the boot", "boot-1", false)
	reason.Token = "t2"
	check("the next replacement", "boot-2", true)
	reason.Token, reason.Reboots = "t3", false
	check("a termination", "", false)
	node, reason = newNode(booted("boot-1"), markOf(Mark{Reason: "rebalance", Since: t0})), Reason{Kind: "spot", Hook: "g/h", Reboots: true}
	check("cordoned before for another reason", "boot-1", true)
	node = newNode()
	check("a kubelet that reports no boot id", "", false)
}

func TestUncordonPatch(t *testing.T) {
	ours := tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule)
	all := Mark{Since: t0, Added: []string{addedTaint, addedCordon, addedLabel}}
	check := func(name string, node *corev1.Node, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			before := node.DeepCopy()
			golden(t, uncordonPatch(node, defaults), want)
			if diff := cmp.Diff(before, node); diff != "" {
				t.Errorf("the cached Node was changed:\n%s", diff)
			}
		})
	}
	check("a node without a mark is not patched", newNode(cordoned, labelled, ours), "")
	check("a node whose mark cannot be parsed is not patched", newNode(cordoned, marked("?")), "")
	check("a node with the mark of another instance is not patched", newNode(cordoned, marked(`{"instance":"i-old"}`)), "")
	check("all that was added is removed", newNode(cordoned, labelled, ours, markOf(all)),
		`{"metadata":{"annotations":{"node-drainer.io/termination":null},`+
			`"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}},`+`"spec":{"taints":[],"unschedulable":null}}`)
	check("what was not added is kept", newNode(cordoned, labelled, ours, markOf(Mark{Since: t0})),
		`{"metadata":{"annotations":{"node-drainer.io/termination":null}},"spec":{}}`)
	check("the taint is removed that was added, whatever the configuration says now",
		newNode(tainted("old", corev1.TaintEffectNoExecute), ours, markOf(Mark{Since: t0, Added: []string{addedTaint, "taint=old:NoExecute"}})),
		`{"metadata":{"annotations":{"node-drainer.io/termination":null}},"spec":{"taints":[`+
			`{"key":"node-drainer.io/terminating","value":"v","effect":"NoSchedule"}]}}`)
	check("other taints are kept, even with the same key and another effect",
		newNode(tainted(defaults.TaintKey, corev1.TaintEffectNoExecute), ours, tainted("other", corev1.TaintEffectNoSchedule), markOf(Mark{Since: t0, Added: []string{addedTaint}})),
		`{"metadata":{"annotations":{"node-drainer.io/termination":null}},"spec":{"taints":[`+
			`{"key":"node-drainer.io/terminating","value":"v","effect":"NoExecute"},`+`{"key":"other","value":"v","effect":"NoSchedule"}]}}`)
}

func TestExcludePatch(t *testing.T) {
	mark := Mark{Since: t0, Added: []string{addedTaint}}
	check := func(name string, node *corev1.Node, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) { golden(t, excludePatch(node), want) })
	}
	check("a node without a mark is not patched", newNode(), "")
	check("a node that has the label is not patched", newNode(labelled, markOf(mark)), "")
	check("the label is added, and recorded", newNode(markOf(mark)),
		`{"metadata":{"annotations":{"node-drainer.io/termination":{"instance":"`+instance+`","reason":"",`+
			`"since":"2026-01-02T03:04:05Z","added":["taint","label"]}},`+
			`"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":"true"}},"spec":{}}`)
}

func TestMergeMarks(t *testing.T) {
	first := Mark{Reason: "spot", Hook: "g/h", Token: "t1", Since: t0, Deadline: at(time.Hour), Added: []string{addedTaint}}
	change := func(changes ...func(*Mark)) Mark {
		m := first
		for _, c := range changes {
			c(&m)
		}
		return m
	}
	now := at(time.Minute + 587*time.Millisecond)
	check := func(name string, mark Mark, reason Reason, want Mark) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, mark.Merge(reason, now.Add(time.Microsecond))); diff != "" {
				t.Error(diff)
			}
		})
	}
	check("a first mark starts now, and its deadline has whole seconds", Mark{}, Reason{Kind: "spot", Deadline: at(time.Hour + time.Millisecond)},
		Mark{Reason: "spot", Since: now, Deadline: at(time.Hour)})
	check("a deadline that is not known yet", Mark{}, Reason{Kind: "spot"}, Mark{Reason: "spot", Since: now})
	check("an earlier deadline tightens", first, Reason{Hook: "g/h", Token: "t1", Deadline: at(time.Minute)},
		change(func(m *Mark) { m.Deadline = at(time.Minute) }))
	check("a later deadline does not loosen", first, Reason{Hook: "g/h", Token: "t1", Deadline: at(2 * time.Hour)}, first)
	check("no deadline does not loosen", first, Reason{Hook: "g/h", Token: "t1"}, first)
	check("another hook of the same termination", first, Reason{Hook: "g/two", Token: "t9", Deadline: at(2 * time.Hour)}, first)
	check("the same hook without a token", first, Reason{Hook: "g/h"}, first)
	check("another token of the same hook is a new termination", first,
		Reason{Kind: "again", Hook: "g/h", Token: "t2", Deadline: at(3 * time.Hour)},
		Mark{Reason: "again", Hook: "g/h", Token: "t2", Since: now, Deadline: at(3 * time.Hour), Added: []string{addedTaint}})
	check("a hook is added to a mark without one", change(func(m *Mark) { m.Hook, m.Token = "", "" }),
		Reason{Hook: "g/h", Token: "t1", Deadline: at(2 * time.Hour)}, first)
	check("the earlier termination time is kept", change(func(m *Mark) { m.TerminatesAt = at(3 * time.Hour) }),
		Reason{Hook: "g/h", Token: "t1", TerminatesAt: at(2 * time.Hour)}, change(func(m *Mark) { m.TerminatesAt = at(2 * time.Hour) }))
	check("the first deadline restarts Since, if the node was cordoned hours ago",
		Mark{Reason: "maintenance", Since: at(-3 * time.Hour), TerminatesAt: at(48 * time.Hour), Added: []string{addedTaint}},
		Reason{Kind: "spot", Deadline: at(time.Hour), TerminatesAt: at(2 * time.Hour)},
		Mark{Reason: "spot", Since: now, Deadline: at(time.Hour), TerminatesAt: at(2 * time.Hour), Added: []string{addedTaint}})
	check("the first deadline restarts Since after the confirmation of the same event",
		Mark{Reason: "again", Hook: "g/h", Token: "t1", Since: t0}, Reason{Kind: "again", Hook: "g/h", Token: "t1", Deadline: at(time.Hour)},
		Mark{Reason: "again", Hook: "g/h", Token: "t1", Since: now, Deadline: at(time.Hour)})
	check("a second cordon without a deadline changes nothing", Mark{Reason: "maintenance", Since: t0}, Reason{Kind: "rebalance"},
		Mark{Reason: "maintenance", Since: t0})
	check("a hook after the deadline of maintenance in the future is a new termination",
		Mark{Reason: "maintenance", Since: t0, Deadline: at(time.Second), TerminatesAt: at(48 * time.Hour), Added: []string{addedTaint}},
		Reason{Kind: "again", Hook: "g/h", Token: "t1", Deadline: at(3 * time.Hour)},
		Mark{Reason: "again", Hook: "g/h", Token: "t1", Since: now, Deadline: at(3 * time.Hour), Added: []string{addedTaint}})
	check("a hook of an instance that AWS is terminating does not loosen",
		Mark{Reason: "spot", Since: t0, Deadline: at(time.Second), TerminatesAt: at(2 * time.Second)},
		Reason{Kind: "again", Hook: "g/h", Token: "t1", Deadline: at(3 * time.Hour)},
		Mark{Reason: "spot", Hook: "g/h", Token: "t1", Since: t0, Deadline: at(time.Second), TerminatesAt: at(2 * time.Second)})
	requested := Mark{Reason: string(event.DrainRequested), Since: t0, Deadline: at(time.Hour)}
	check("any other event takes the place of a request, which can be withdrawn", requested,
		Reason{Kind: "spot", Deadline: at(2 * time.Hour)}, Mark{Reason: "spot", Since: t0, Deadline: at(time.Hour)})
	check("a request does not take the place of an event", first, Reason{Kind: string(event.DrainRequested)}, first)
	request := Reason{Kind: string(event.DrainRequested), Deadline: at(2 * time.Hour)}
	check("a request before the deadline of the one before does not loosen", requested, request, requested)
	check("a request after that asks for another drain", Mark{Reason: requested.Reason, Since: t0, Deadline: at(time.Second)}, request,
		Mark{Reason: requested.Reason, Since: now, Deadline: at(2 * time.Hour)})
	check("a request whose deadline is not known yet is the same one", Mark{Reason: requested.Reason, Since: t0},
		Reason{Kind: requested.Reason}, Mark{Reason: requested.Reason, Since: t0})
	maintained := Mark{Reason: string(event.ScheduledChange), Since: t0, Deadline: at(time.Hour), TerminatesAt: at(2 * time.Hour)}
	block := string(event.CapacityBlockExpiration)
	ending := Mark{Reason: block, Since: t0, Deadline: at(time.Hour), TerminatesAt: at(3 * time.Hour)}
	check("the end of a Capacity Block takes the place of maintenance, which can be canceled", maintained,
		Reason{Kind: block, Deadline: at(2 * time.Hour), TerminatesAt: at(3 * time.Hour)}, ending)
	check("a warning that is not confirmed does not", maintained, Reason{Kind: block}, maintained)
	check("maintenance changes no more than its deadline", ending,
		Reason{Kind: string(event.ScheduledChange), Deadline: at(time.Minute), TerminatesAt: at(2 * time.Hour)},
		Mark{Reason: block, Since: t0, Deadline: at(time.Minute), TerminatesAt: at(3 * time.Hour)})
	check("a token is added to its hook", change(func(m *Mark) { m.Token = "" }), Reason{Hook: "g/h", Token: "t1", Deadline: at(2 * time.Hour)},
		first)
}
