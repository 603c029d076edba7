package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestRetire(t *testing.T) {
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
	tests := []struct {
		name string
		node *corev1.Node
		cfg  Config
		want string
	}{
		{
			"a healthy node: taint, cordon, label and the mark in one patch", newNode(), defaults,
			`{"metadata":{` + mark(`["taint","cordon","label"]`) + `,` + label + `},"spec":{"taints":[` + taint + `],` + cordon + `}}`,
		},
		{
			"other taints stay", newNode(tainted("other", corev1.TaintEffectNoExecute)), with(noCordon, off),
			`{"metadata":{` + mark(`["taint"]`) + `},"spec":{"taints":[{"key":"other","value":"v","effect":"NoExecute"},` + taint + `]}}`,
		},
		{"what was there before is not put", newNode(cordoned, labelled, ours), defaults, `{"metadata":{` + mark(`null`) + `},"spec":{}}`},
		{
			"the label is not put when it is put late", newNode(cordoned), with(late),
			`{"metadata":{` + mark(`["taint"]`) + `},"spec":{"taints":[` + taint + `]}}`,
		},
		{"a node that has all of it is not patched", newNode(cordoned, labelled, ours, markOf(done)), defaults, ""},
		{
			"what somebody took off is put again", newNode(labelled, ours, markOf(done)), defaults,
			`{"metadata":{` + mark(`["taint","cordon"]`) + `},"spec":{` + cordon + `}}`,
		},
		{
			"a mark that cannot be read is replaced", newNode(cordoned, labelled, ours, marked("{")), defaults,
			`{"metadata":{` + mark(`null`) + `},"spec":{}}`,
		},
		{
			"the mark of an instance that had the name before is replaced",
			newNode(cordoned, labelled, ours, marked(`{"instance":"i-old","since":"2020-01-01T00:00:00Z","added":["taint"]}`)), defaults,
			`{"metadata":{` + mark(`null`) + `},"spec":{}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.node.DeepCopy()
			p, mark := cordonPatch(tt.node, tt.cfg, reason, t0)
			if diff := cmp.Diff(before, tt.node); diff != "" {
				t.Errorf("the watch's own copy has changed:\n%s", diff)
			}
			golden(t, p, tt.want)
			if mark.InstanceID != instance || !mark.Since.Equal(t0) || !mark.Deadline.Equal(at(time.Hour)) {
				t.Errorf("got the mark %+v", mark)
			}
		})
	}
}

func TestRestore(t *testing.T) {
	ours := tainted(defaults.TaintKey, corev1.TaintEffectNoSchedule)
	all := Mark{Since: t0, Added: []string{addedTaint, addedCordon, addedLabel}}
	tests := []struct {
		name string
		node *corev1.Node
		want string
	}{
		{"a node without a mark is left alone", newNode(cordoned, labelled, ours), ""},
		{"so is one whose mark cannot be read", newNode(cordoned, marked("?")), ""},
		{"so is one with the mark of another instance", newNode(cordoned, marked(`{"instance":"i-old"}`)), ""},
		{
			"all that was put is taken off", newNode(cordoned, labelled, ours, markOf(all)),
			`{"metadata":{"annotations":{"node-drainer.io/termination":null},` +
				`"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}},` +
				`"spec":{"taints":[],"unschedulable":null}}`,
		},
		{
			"nothing else is", newNode(cordoned, labelled, ours, markOf(Mark{Since: t0})),
			`{"metadata":{"annotations":{"node-drainer.io/termination":null}},"spec":{}}`,
		},
		{
			"nor are other taints, be it of the same key with another effect",
			newNode(tainted(defaults.TaintKey, corev1.TaintEffectNoExecute), ours, tainted("other", corev1.TaintEffectNoSchedule),
				markOf(Mark{Since: t0, Added: []string{addedTaint}})),
			`{"metadata":{"annotations":{"node-drainer.io/termination":null}},"spec":{"taints":[` +
				`{"key":"node-drainer.io/terminating","value":"v","effect":"NoExecute"},` +
				`{"key":"other","value":"v","effect":"NoSchedule"}]}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.node.DeepCopy()
			golden(t, uncordonPatch(tt.node, defaults), tt.want)
			if diff := cmp.Diff(before, tt.node); diff != "" {
				t.Errorf("the watch's own copy has changed:\n%s", diff)
			}
		})
	}
}

func TestExclude(t *testing.T) {
	mark := Mark{Since: t0, Added: []string{addedTaint}}
	tests := []struct {
		name string
		node *corev1.Node
		want string
	}{
		{"a node without a mark is left alone", newNode(), ""},
		{"so is one that has the label", newNode(labelled, markOf(mark)), ""},
		{
			"the label is put, and noted", newNode(markOf(mark)),
			`{"metadata":{"annotations":{"node-drainer.io/termination":{"instance":"` + instance + `","reason":"",` +
				`"since":"2026-01-02T03:04:05Z","added":["taint","label"]}},` +
				`"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":"true"}},"spec":{}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { golden(t, excludePatch(tt.node), tt.want) })
	}
}

func TestMerge(t *testing.T) {
	first := Mark{Reason: "spot", Hook: "g/h", Token: "t1", Since: t0, Deadline: at(time.Hour), Added: []string{addedTaint}}
	change := func(changes ...func(*Mark)) Mark {
		m := first
		for _, c := range changes {
			c(&m)
		}
		return m
	}
	now := at(time.Minute)
	tests := []struct {
		name   string
		mark   Mark
		reason Reason
		want   Mark
	}{
		{
			"a first mark begins now, in whole seconds",
			Mark{},
			Reason{Kind: "spot", Deadline: at(time.Hour + time.Millisecond)},
			Mark{Reason: "spot", Since: now, Deadline: at(time.Hour)},
		},
		{"a deadline that is not known yet", Mark{}, Reason{Kind: "spot"}, Mark{Reason: "spot", Since: now}},
		{
			"an earlier deadline tightens", first,
			Reason{Hook: "g/h", Token: "t1", Deadline: at(time.Minute)},
			change(func(m *Mark) { m.Deadline = at(time.Minute) }),
		},
		{"a later deadline does not loosen", first, Reason{Hook: "g/h", Token: "t1", Deadline: at(2 * time.Hour)}, first},
		{"no deadline does not loosen", first, Reason{Hook: "g/h", Token: "t1"}, first},
		{"another hook of the same termination", first, Reason{Hook: "g/two", Token: "t9", Deadline: at(2 * time.Hour)}, first},
		{"the same hook without a token", first, Reason{Hook: "g/h"}, first},
		{
			"the same hook with another token is a new termination", first,
			Reason{Kind: "again", Hook: "g/h", Token: "t2", Deadline: at(3 * time.Hour)},
			Mark{Reason: "again", Hook: "g/h", Token: "t2", Since: now, Deadline: at(3 * time.Hour), Added: []string{addedTaint}},
		},
		{
			"a hook joins a mark without one", change(func(m *Mark) { m.Hook, m.Token = "", "" }),
			Reason{Hook: "g/h", Token: "t1", Deadline: at(2 * time.Hour)},
			first,
		},
		{
			"when an instance goes is kept, the earlier of two",
			change(func(m *Mark) { m.TerminatesAt = at(3 * time.Hour) }),
			Reason{Hook: "g/h", Token: "t1", TerminatesAt: at(2 * time.Hour)},
			change(func(m *Mark) { m.TerminatesAt = at(2 * time.Hour) }),
		},
		{
			"a deadline begins anew what was marked without one: a cordon of hours ago is no part of the drain",
			Mark{Reason: "maintenance", Since: at(-3 * time.Hour), TerminatesAt: at(48 * time.Hour), Added: []string{addedTaint}},
			Reason{Kind: "spot", Deadline: at(time.Hour), TerminatesAt: at(2 * time.Hour)},
			Mark{Reason: "spot", Since: now, Deadline: at(time.Hour), TerminatesAt: at(2 * time.Hour), Added: []string{addedTaint}},
		},
		{
			"so does that of the event itself, once it is confirmed",
			Mark{Reason: "again", Hook: "g/h", Token: "t1", Since: t0},
			Reason{Kind: "again", Hook: "g/h", Token: "t1", Deadline: at(time.Hour)},
			Mark{Reason: "again", Hook: "g/h", Token: "t1", Since: now, Deadline: at(time.Hour)},
		},
		{"another cordon begins nothing", Mark{Reason: "maintenance", Since: t0}, Reason{Kind: "rebalance"}, Mark{Reason: "maintenance", Since: t0}},
		{
			"a hook after the time to be drained for maintenance that is yet to come is a new termination",
			Mark{Reason: "maintenance", Since: t0, Deadline: at(time.Second), TerminatesAt: at(48 * time.Hour), Added: []string{addedTaint}},
			Reason{Kind: "again", Hook: "g/h", Token: "t1", Deadline: at(3 * time.Hour)},
			Mark{Reason: "again", Hook: "g/h", Token: "t1", Since: now, Deadline: at(3 * time.Hour), Added: []string{addedTaint}},
		},
		{
			"a hook of an instance that is being taken back does not loosen",
			Mark{Reason: "spot", Since: t0, Deadline: at(time.Second), TerminatesAt: at(2 * time.Second)},
			Reason{Kind: "again", Hook: "g/h", Token: "t1", Deadline: at(3 * time.Hour)},
			Mark{Reason: "spot", Hook: "g/h", Token: "t1", Since: t0, Deadline: at(time.Second), TerminatesAt: at(2 * time.Second)},
		},
		{"a token joins its hook", change(func(m *Mark) { m.Token = "" }), Reason{Hook: "g/h", Token: "t1", Deadline: at(2 * time.Hour)}, first},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.mark.merge(tt.reason, now.Add(time.Millisecond))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
