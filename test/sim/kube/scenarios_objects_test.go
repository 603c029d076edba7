package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patchNode patches the node, and describes the answer.
func (w *world) patchNode(kind types.PatchType, patch string, subresource ...string) string {
	_, err := w.client.CoreV1().Nodes().Patch(
		w.t.Context(), w.node, kind, []byte(patch), metav1.PatchOptions{}, subresource...)
	return w.answer(err)
}

func (w *world) getNode() *corev1.Node {
	n, err := w.client.CoreV1().Nodes().Get(w.t.Context(), w.node, metav1.GetOptions{})
	w.must(err)
	return n
}

// conditionOf describes a condition of the node.
func (w *world) conditionOf(kind corev1.NodeConditionType) string {
	for _, c := range w.getNode().Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s", c.Status, c.Reason)
		}
	}
	return "none"
}

// code is an answer without its message.
func code(answer string) string {
	code, _, _ := strings.Cut(answer, ":")
	return code
}

// drained is the condition that the agent writes.
const drained corev1.NodeConditionType = "node-drainer.io/Drained"

// objectScenarios are about reads, writes and watches.
var objectScenarios = []scenario{
	{"patches of a node", func(w *world) {
		before := w.getNode()
		w.say("old version: %s", w.patchNode(types.MergePatchType,
			`{"metadata":{"resourceVersion":"1","labels":{"a":"b"}}}`))
		this := ""
		w.until("nobody else changes the node", func() bool {
			this = w.patchNode(types.MergePatchType,
				`{"metadata":{"resourceVersion":"`+w.getNode().ResourceVersion+`","labels":{"a":"b"}}}`)
			return !strings.HasPrefix(this, "409")
		})
		w.say("this version: %s", this)
		w.say("label: %s", w.getNode().Labels["a"])
		w.say("another UID: %s", strings.ReplaceAll(w.patchNode(types.MergePatchType,
			`{"metadata":{"uid":"another","labels":{"a":"c"}}}`), string(before.UID), "UID"))
		w.say("remove: %s", w.patchNode(types.MergePatchType, `{"metadata":{"labels":{"a":null}}}`))
		w.say("label: %q", w.getNode().Labels["a"])
		w.until("a patch without effect changes no version", func() bool {
			version := w.getNode().ResourceVersion
			w.must(w.client.CoreV1().RESTClient().Patch(types.MergePatchType).Resource("nodes").Name(w.node).
				Body([]byte(`{"metadata":{"labels":{"a":null}}}`)).Do(w.t.Context()).Error())
			return w.getNode().ResourceVersion == version
		})
		w.say("status: %s", w.patchNode(types.MergePatchType, `{"status":{"nodeInfo":{"bootID":"other"}}}`))
		w.say("boot ID changed: %t", w.getNode().Status.NodeInfo.BootID == "other")
		w.say("not JSON: %s", code(w.patchNode(types.MergePatchType, `{`)))
	}, `
		old version: 409 Conflict: Operation cannot be fulfilled on nodes "NODE": the object has been modified; please apply your changes to the latest version and try again
		this version: ok
		label: b
		another UID: 422 Invalid: Node "NODE" is invalid: metadata.uid: Invalid value: "another": field is immutable (FieldValueInvalid metadata.uid: Invalid value: "another": field is immutable) (FieldValueInvalid metadata.uid: Invalid value: "another": field is immutable)
		remove: ok
		label: ""
		status: ok
		boot ID changed: false
		not JSON: 400 BadRequest`},
	{"condition of a node", func(w *world) {
		patch := func(patch, uid string) string {
			return w.patchNode(types.StrategicMergePatchType,
				`{"metadata":{"uid":"`+uid+`"},"status":{"conditions":[`+patch+`]}}`, "status")
		}
		uid := string(w.getNode().UID)
		add := `{"type":"node-drainer.io/Drained","status":"False","reason":"Draining",` +
			`"lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"}`
		w.say("add: %s", patch(add, uid))
		w.say("condition: %s; Ready: %s", w.conditionOf(drained), w.conditionOf(corev1.NodeReady)[:4])
		w.say("change: %s", patch(`{"type":"node-drainer.io/Drained","status":"True","reason":"Drained"}`, uid))
		w.say("condition: %s", w.conditionOf(drained))
		w.say("remove from another UID: %s", strings.ReplaceAll(
			patch(`{"$patch":"delete","type":"node-drainer.io/Drained"}`, "another"), uid, "UID"))
		w.say("condition: %s", w.conditionOf(drained))
		w.say("remove: %s", patch(`{"$patch":"delete","type":"node-drainer.io/Drained"}`, uid))
		w.say("condition: %s", w.conditionOf(drained))
		w.say("spec: %s", w.patchNode(types.StrategicMergePatchType, `{"spec":{"unschedulable":true}}`, "status"))
		w.say("unschedulable: %v", w.getNode().Spec.Unschedulable)
	}, `
		add: ok
		condition: False Draining; Ready: True
		change: ok
		condition: True Drained
		remove from another UID: 422 Invalid: Node "NODE" is invalid: metadata.uid: Invalid value: "another": field is immutable (FieldValueInvalid metadata.uid: Invalid value: "another": field is immutable) (FieldValueInvalid metadata.uid: Invalid value: "another": field is immutable)
		condition: True Drained
		remove: ok
		condition: none
		spec: ok
		unschedulable: false`},
	{"updates of a node", func(w *world) {
		update := func(change func(*corev1.Node)) string {
			n := w.getNode()
			change(n)
			_, err := w.client.CoreV1().Nodes().Update(w.t.Context(), n, metav1.UpdateOptions{})
			return strings.ReplaceAll(w.answer(err), string(w.getNode().UID), "UID")
		}
		w.until("nobody else changes the node", func() bool {
			return update(func(n *corev1.Node) { n.Labels["a"] = "b" }) == "ok"
		})
		w.say("old version: %s", update(func(n *corev1.Node) { n.ResourceVersion = "1" }))
		w.say("no version: %s", update(func(n *corev1.Node) { n.ResourceVersion = ""; n.Labels["a"] = "c" }))
		w.say("another UID: %s", code(update(func(n *corev1.Node) { n.UID = "another" })))
		_, err := w.client.CoreV1().Nodes().Patch(w.t.Context(), "none", types.MergePatchType, []byte(`{}`),
			metav1.PatchOptions{})
		w.say("patch none: %s", w.answer(err))
		w.say("delete none: %s", w.answer(w.client.CoreV1().Nodes().Delete(w.t.Context(), "none", metav1.DeleteOptions{})))
	}, `
		old version: 409 Conflict: Operation cannot be fulfilled on nodes "NODE": the object has been modified; please apply your changes to the latest version and try again
		no version: ok
		another UID: 409 Conflict
		patch none: 404 NotFound: nodes "none" not found
		delete none: 404 NotFound: nodes "none" not found`},
	{"lease", func(w *world) {
		leases := w.client.CoordinationV1().Leases(w.ns)
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")},
		}
		_, err := leases.Get(w.t.Context(), "l", metav1.GetOptions{})
		w.say("get none: %s", w.answer(err))
		first, err := leases.Create(w.t.Context(), lease, metav1.CreateOptions{})
		w.say("create: %s", w.answer(err))
		_, err = leases.Create(w.t.Context(), lease, metav1.CreateOptions{})
		w.say("create again: %s", w.answer(err))
		first.Spec.HolderIdentity = new("b")
		_, err = leases.Update(w.t.Context(), first, metav1.UpdateOptions{})
		w.say("update: %s", w.answer(err))
		_, err = leases.Update(w.t.Context(), first, metav1.UpdateOptions{})
		w.say("update of the old version: %s", w.answer(err))
	}, `
		get none: 404 NotFound: leases.coordination.k8s.io "l" not found
		create: ok
		create again: 409 AlreadyExists: leases.coordination.k8s.io "l" already exists
		update: ok
		update of the old version: 409 Conflict: Operation cannot be fulfilled on leases.coordination.k8s.io "l": the object has been modified; please apply your changes to the latest version and try again`},
	{"pages", func(w *world) {
		for _, name := range []string{"c", "a", "b"} {
			w.pod(name, quick)
		}
		o := metav1.ListOptions{Limit: 2}
		for range 3 {
			page, err := w.client.CoreV1().Pods(w.ns).List(w.t.Context(), o)
			w.must(err)
			names := ""
			for _, p := range page.Items {
				names += p.Name
			}
			w.say("page: %s, more: %v", names, page.Continue != "")
			if o.Continue = page.Continue; o.Continue == "" {
				break
			}
		}
	}, `
		page: ab, more: true
		page: c, more: false`},
	{"selectors", func(w *world) {
		w.pod("a", quick)
		w.pod("b", quick)
		w.label("b", "yes")
		for _, o := range []metav1.ListOptions{
			{LabelSelector: "changed=yes"},
			{LabelSelector: "app=web,changed!=yes"},
			{FieldSelector: "metadata.name=a"},
			{FieldSelector: "spec.nodeName=" + w.node},
			{FieldSelector: "spec.nodeName=none"},
			{FieldSelector: "status.phase=Running,metadata.name!=a"},
			{LabelSelector: "="},
		} {
			page, err := w.client.CoreV1().Pods(w.ns).List(w.t.Context(), o)
			names := ""
			for _, p := range page.Items {
				names += p.Name
			}
			w.say("%s %s: %s %s", o.LabelSelector, o.FieldSelector, names, w.answer(err))
		}
	}, `
		changed=yes : b ok
		app=web,changed!=yes : a ok
		 metadata.name=a: a ok
		 spec.nodeName=NODE: ab ok
		 spec.nodeName=none:  ok
		 status.phase=Running,metadata.name!=a: b ok
		= :  400 BadRequest: found '=', expected: !, identifier, or 'end of string'`},
	{"a pod that fits no node", func(w *world) {
		w.pod("a", quick)
		w.pod("b", quick, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{poolLabel: "none"} })
		scheduled := func(name string) string {
			for _, c := range w.get(name).Status.Conditions {
				if c.Type == corev1.PodScheduled {
					return fmt.Sprintf("%s %s", c.Status, c.Reason)
				}
			}
			return ""
		}
		w.until("the scheduler has tried b", func() bool { return scheduled("b") != "" })
		w.say("a: %s, b: %s", scheduled("a"), scheduled("b"))
		list, err := w.client.CoreV1().Pods(w.ns).List(w.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=,status.phase=Pending"})
		w.must(err)
		w.say("%d is Pending without a node, %s", len(list.Items), list.Items[0].Name)
	}, `
		a: True , b: False Unschedulable
		1 is Pending without a node, b`},
	{"watch with initial events", func(w *world) {
		w.pod("a", quick)
		events, err := w.client.CoreV1().Pods(w.ns).Watch(w.t.Context(), metav1.ListOptions{
			SendInitialEvents: new(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		w.must(err)
		defer events.Stop()
		w.say("%s", w.event(w.next(events)))
		w.say("%s", w.event(w.next(events)))
		w.label("a", "yes")
		w.say("%s", w.event(w.next(events)))
		w.say("%s", w.delete("a", grace(0)))
		e := w.next(events)
		for e.Type == "MODIFIED" {
			e = w.next(events)
		}
		w.say("%s", w.event(e))
	}, `
		ADDED "a"
		BOOKMARK "" true
		MODIFIED "a"
		200 *v1.Pod
		DELETED "a" `},
	{"watch of a selection", func(w *world) {
		w.pod("a", quick)
		list, err := w.client.CoreV1().Pods(w.ns).List(w.t.Context(), metav1.ListOptions{})
		w.must(err)
		before := w.get("a").ResourceVersion
		w.say("label: %s", w.label("a", "yes"))
		watch := func(o metav1.ListOptions) func() {
			events, err := w.client.CoreV1().Pods(w.ns).Watch(w.t.Context(), o)
			w.must(err)
			w.ends = append(w.ends, events.Stop)
			return func() {
				e := w.next(events)
				p := e.Object.(*corev1.Pod)
				w.say("%s, version: %v, changed: %q", w.event(e), p.ResourceVersion == w.get("a").ResourceVersion,
					p.Labels["changed"])
			}
		}
		changed := watch(metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "changed=yes"})
		changed()
		w.say("label: %s", w.label("a", "no"))
		changed()
		plain := watch(metav1.ListOptions{})
		plain()
		earlier := watch(metav1.ListOptions{ResourceVersion: before})
		earlier()
		earlier()
	}, `
		label: ok
		ADDED "a", version: true, changed: "yes"
		label: ok
		DELETED "a", version: true, changed: "yes"
		ADDED "a", version: true, changed: "no"
		MODIFIED "a", version: false, changed: "yes"
		MODIFIED "a", version: true, changed: "no"`},
	{"timeout of a watch", func(w *world) {
		events, err := w.client.CoreV1().Pods(w.ns).Watch(w.t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(1))})
		w.must(err)
		start := time.Now()
		_, open := <-events.ResultChan()
		w.say("open: %v after a second: %v", open, time.Since(start) > 900*time.Millisecond)
	}, `
		open: false after a second: true`},
	{"event", func(w *world) {
		e := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: w.ns}, Reason: "R", Count: 1,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: w.ns, Name: "a"},
		}
		_, err := w.client.CoreV1().Events(w.ns).CreateWithEventNamespace(e) //nolint:staticcheck // As client-go records.
		w.say("create: %s", w.answer(err))
		after, err := w.client.CoreV1().Events(w.ns).PatchWithEventNamespace(e, []byte(`{"count":2}`)) //nolint:staticcheck // As above.
		w.say("patch: %s", w.answer(err))
		w.say("count: %d", after.Count)
	}, `
		create: ok
		patch: ok
		count: 2`},
	{"budget that changes", func(w *world) {
		w.pod("a", quick)
		w.pod("b", quick)
		w.budget("web", "web", least(1))
		w.counted("web", 2)
		b := w.getBudget("web")
		least(2)(&b.Spec)
		b.Status.DisruptionsAllowed = 7
		_, err := w.client.PolicyV1().PodDisruptionBudgets(w.ns).Update(w.t.Context(), b, metav1.UpdateOptions{})
		w.say("update: %s", w.answer(err))
		w.until("it is counted", func() bool { return w.getBudget("web").Status.ObservedGeneration == 2 })
		w.say("budget: %s", w.describeBudget("web"))
		w.say("generation: %d", w.getBudget("web").Generation)
	}, `
		update: ok
		budget: allowed 0, healthy 2 of 2, expected 2, disrupted [], DisruptionAllowed=False InsufficientPods ""
		generation: 2`},
}

// taints describes the taints of the node.
func (w *world) taints() string {
	var out []string
	for _, t := range w.getNode().Spec.Taints {
		out = append(out, t.Key+":"+string(t.Effect))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
