package kube_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// scenario is played in the model and against a real control plane, with the same transcript.
type scenario struct {
	name string
	play func(*world)
	want string
}

func scenarios() []scenario { return slices.Concat(podScenarios, objectScenarios, controllerScenarios) }

// podScenarios are about evictions and deletions of pods.
var podScenarios = []scenario{
	{"without a budget", func(w *world) {
		w.pod("a")
		w.say("evict: %s", w.evict("a"))
		w.say("pod: %s", w.describe("a"))
		w.say("evict again: %s", w.evict("a", grace(60)))
		w.say("pod: %s", w.describe("a"))
		w.say("evict with more grace: %s", w.evict("a", grace(600)))
		w.say("pod: %s", w.describe("a"))
		w.say("none of the name: %s", w.evict("b"))
	}, `
		evict: 201 *v1.Status
		pod: Running, deleted with 7200 s, DisruptionTarget=True EvictionByEvictionAPI "Eviction API: evicting"
		evict again: 201 *v1.Status
		pod: Running, deleted with 60 s, DisruptionTarget=True EvictionByEvictionAPI "Eviction API: evicting"
		evict with more grace: 201 *v1.Status
		pod: Running, deleted with 60 s, DisruptionTarget=True EvictionByEvictionAPI "Eviction API: evicting"
		none of the name: 404 NotFound: pods "b" not found`},
	{"budget", func(w *world) {
		w.pod("a")
		w.pod("b")
		w.budget("web", "web", least(1))
		w.say("budget: %s", w.counted("web", 2))
		w.say("evict a: %s", w.evict("a"))
		w.say("budget: %s", w.counted("web", 1))
		w.say("evict b: %s", w.evict("b"))
		w.say("b: %s", w.describe("b"))
		w.say("evict a again: %s", w.evict("a", grace(30)))
		w.say("a: %s", w.describe("a"))
		w.say("delete b: %s", w.delete("b"))
		w.say("b: %s", w.describe("b"))
		w.say("budget: %s", w.counted("web", 0))
	}, `
		budget: allowed 1, healthy 2 of 1, expected 2, disrupted [], DisruptionAllowed=True SufficientPods ""
		evict a: 201 *v1.Status
		budget: allowed 0, healthy 1 of 1, expected 2, disrupted [], DisruptionAllowed=False InsufficientPods ""
		evict b: 429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. (DisruptionBudget : The disruption budget web needs 1 healthy pods and has 1 currently)
		b: Running
		evict a again: 201 *v1.Status
		a: Running, deleted with 30 s, DisruptionTarget=True EvictionByEvictionAPI "Eviction API: evicting"
		delete b: 200 *v1.Pod
		b: Running, deleted with 7200 s
		budget: allowed 0, healthy 0 of 1, expected 2, disrupted [], DisruptionAllowed=False InsufficientPods ""`},
	{"two budgets", func(w *world) {
		w.pod("a")
		w.budget("one", "web", least(0))
		w.budget("two", "web", least(0))
		w.say("evict: %s", w.evict("a"))
		w.say("dry run: %s", w.evict("a", dryRun))
		w.say("pod: %s", w.describe("a"))
	}, `
		evict: 500 no reason: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.
		dry run: 500 no reason: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.
		pod: Running`},
	{"dry run", func(w *world) {
		w.pod("a")
		w.pod("b")
		w.budget("web", "web", least(1))
		w.say("budget: %s", w.counted("web", 2))
		w.say("evict: %s", w.evict("a", dryRun))
		w.say("pod: %s", w.describe("a"))
		w.say("budget: %s", w.describeBudget("web"))
		w.say("evict: %s", w.evict("a"))
		w.counted("web", 1)
		w.say("evict: %s", w.evict("b", dryRun))
	}, `
		budget: allowed 1, healthy 2 of 1, expected 2, disrupted [], DisruptionAllowed=True SufficientPods ""
		evict: 201 *v1.Status
		pod: Running
		budget: allowed 1, healthy 2 of 1, expected 2, disrupted [], DisruptionAllowed=True SufficientPods ""
		evict: 201 *v1.Status
		evict: 429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. (DisruptionBudget : The disruption budget web needs 1 healthy pods and has 1 currently)`},
	{"preconditions", func(w *world) {
		w.pod("a")
		w.pod("b")
		w.budget("web", "web", least(0))
		w.counted("web", 2)
		old := w.get("a").ResourceVersion
		w.say("label: %s", w.label("a", "changed"))
		w.say("evict another UID: %s", w.evict("b", uid("another")))
		w.say("b: %s", w.describe("b"))
		w.until("b is counted", func() bool { return w.getBudget("web").Status.CurrentHealthy == 1 })
		w.say("budget: %s", w.describeBudget("web"))
		w.say("evict an old version: %s", strings.ReplaceAll(w.evict("a", version(old)), "("+old+")", "(OLD)"))
		w.until("a is counted", func() bool { return w.getBudget("web").Status.CurrentHealthy == 0 })
		w.say("budget: %s", w.describeBudget("web"))
		w.say("delete another UID: %s", w.delete("a", uid("another")))
		w.say("delete an old version: %s", strings.ReplaceAll(w.delete("a", version(old)), "("+old+")", "(OLD)"))
		w.say("evict this UID: %s", w.evict("a", uid(w.get("a").UID)))
		w.say("a: %s", w.describe("a"))
		w.say("delete this version: %s", w.delete("b", version(w.get("b").ResourceVersion)))
		w.say("b: %s", w.describe("b"))
	}, `
		label: ok
		evict another UID: 409 Conflict: Operation cannot be fulfilled on Pod "b": the UID in the precondition (another) does not match the UID in record (UID). The object might have been deleted and then recreated
		b: Running
		budget: allowed 1, healthy 1 of 0, expected 2, disrupted [b], DisruptionAllowed=True SufficientPods ""
		evict an old version: 409 Conflict: Operation cannot be fulfilled on Pod "a": the ResourceVersion in the precondition (OLD) does not match the ResourceVersion in record (VERSION). The object might have been modified
		budget: allowed 0, healthy 0 of 0, expected 2, disrupted [a b], DisruptionAllowed=False InsufficientPods ""
		delete another UID: 409 Conflict: Operation cannot be fulfilled on Pod "a": the UID in the precondition (another) does not match the UID in record (UID). The object might have been deleted and then recreated
		delete an old version: 409 Conflict: Operation cannot be fulfilled on Pod "a": the ResourceVersion in the precondition (OLD) does not match the ResourceVersion in record (VERSION). The object might have been modified
		evict this UID: 429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. (DisruptionBudget : The disruption budget web needs 0 healthy pods and has 0 currently)
		a: Running
		delete this version: 200 *v1.Pod
		b: Running, deleted with 7200 s`},
	{"pod that is not Ready, below the budget", func(w *world) {
		w.pod("a")
		w.budget("web", "web", least(1))
		w.counted("web", 1)
		w.unready("a")
		w.say("budget: %s", w.counted("web", 0))
		w.say("evict: %s", w.evict("a"))
	}, `
		budget: allowed 0, healthy 0 of 1, expected 1, disrupted [], DisruptionAllowed=False InsufficientPods ""
		evict: 429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. (DisruptionBudget : The disruption budget web needs 1 healthy pods and has 0 currently)`},
	{"pod that is not Ready, budget kept", func(w *world) {
		w.pod("a")
		w.pod("b")
		w.budget("web", "web", least(1))
		w.counted("web", 2)
		w.unready("a")
		w.say("budget: %s", w.counted("web", 1))
		w.say("evict: %s", w.evict("a"))
		w.say("pod: %s", w.describe("a"))
		w.say("budget: %s", w.describeBudget("web"))
	}, `
		budget: allowed 0, healthy 1 of 1, expected 2, disrupted [], DisruptionAllowed=False InsufficientPods ""
		evict: 201 *v1.Status
		pod: Running, deleted with 7200 s, DisruptionTarget=True EvictionByEvictionAPI "Eviction API: evicting"
		budget: allowed 0, healthy 1 of 1, expected 2, disrupted [], DisruptionAllowed=False InsufficientPods ""`},
	{"pod that is not Ready, policy AlwaysAllow", func(w *world) {
		w.pod("a")
		w.budget("web", "web", func(s *policyv1.PodDisruptionBudgetSpec) {
			least(2)(s)
			s.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
		})
		w.counted("web", 1)
		w.say("evict: %s", w.evict("a"))
		w.unready("a")
		w.counted("web", 0)
		w.say("evict: %s", w.evict("a"))
		w.say("pod: %s", w.describe("a"))
	}, `
		evict: 429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. (DisruptionBudget : The disruption budget web needs 2 healthy pods and has 1 currently)
		evict: 201 *v1.Status
		pod: Running, deleted with 7200 s, DisruptionTarget=True EvictionByEvictionAPI "Eviction API: evicting"`},
	{"pending pod", func(w *world) {
		w.pod("a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{poolLabel: "none"} })
		w.budget("web", "web", least(1))
		w.counted("web", 0)
		w.say("evict: %s", w.evict("a"))
		w.say("pod: %s", w.describe("a"))
		w.pod("a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{poolLabel: "none"} })
		w.say("delete: %s", w.delete("a", grace(60)))
		w.say("pod: %s", w.describe("a"))
	}, `
		evict: 201 *v1.Status
		pod: gone
		delete: 200 *v1.Pod
		pod: gone`},
	{"deletions", func(w *world) {
		w.pod("a")
		w.say("dry run: %s", w.delete("a", dryRun))
		w.say("pod: %s", w.describe("a"))
		for _, seconds := range []int64{600, 900, 60, 0} {
			w.say("delete with %d s: %s", seconds, w.delete("a", grace(seconds)))
			w.say("pod: %s", w.describe("a"))
		}
		w.pod("b")
		w.say("delete with its own: %s", w.delete("b"))
		w.say("pod: %s", w.describe("b"))
		w.say("delete again: %s", w.delete("b"))
		w.say("delete with 0 s: %s", w.delete("b", grace(0)))
		w.say("delete: %s", w.delete("b"))
	}, `
		dry run: 200 *v1.Pod
		pod: Running
		delete with 600 s: 200 *v1.Pod
		pod: Running, deleted with 600 s
		delete with 900 s: 200 *v1.Pod
		pod: Running, deleted with 600 s
		delete with 60 s: 200 *v1.Pod
		pod: Running, deleted with 60 s
		delete with 0 s: 200 *v1.Pod
		pod: gone
		delete with its own: 200 *v1.Pod
		pod: Running, deleted with 7200 s
		delete again: 200 *v1.Pod
		delete with 0 s: 200 *v1.Pod
		delete: 404 NotFound: pods "b" not found`},
	{"grace period that has passed", func(w *world) {
		w.pod("a")
		w.say("delete: %s", w.delete("a", grace(600)))
		time.Sleep(3 * time.Second)
		w.say("delete with 1 s: %s", w.delete("a", grace(1)))
		p := w.get("a")
		w.until("the pod is gone", func() bool { p = w.get("a"); return p == nil })
	}, `
		delete: 200 *v1.Pod
		delete with 1 s: 200 *v1.Pod`},
	{"pod with the grace period of the template", func(w *world) {
		w.pod("a", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = nil })
		w.say("evict: %s", w.evict("a"))
		w.say("pod: %s", w.describe("a"))
	}, `
		evict: 201 *v1.Status
		pod: Running, deleted with 30 s, DisruptionTarget=True EvictionByEvictionAPI "Eviction API: evicting"`},
}

// play plays a scenario, and ends its watches.
func (w *world) play(scenario func(*world)) {
	defer func() {
		for _, end := range w.ends {
			end()
		}
	}()
	scenario(w)
}

// inModel plays a scenario in the model.
func inModel(t *testing.T, play func(*world)) (transcript []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := kube.New(1)
		defer server.Run(kube.DefaultTiming()).Stop()
		client, err := server.Client("scenario")
		w := &world{t: t, client: client, ns: "shop", node: "node-1"}
		w.must(err)
		node := newNode(w.node)
		node.Labels = map[string]string{poolLabel: w.ns}
		for range 20 { // Versions of which a watch has expired.
			w.must(server.Create(newNode("another")))
			kube.Remove[*corev1.Node](server, types.NamespacedName{Name: "another"})
		}
		server.Expire()
		w.must(server.Create(node))
		w.until("the node is Ready", func() bool {
			n, err := client.CoreV1().Nodes().Get(t.Context(), w.node, metav1.GetOptions{})
			w.must(err)
			return len(n.Spec.Taints) == 0 && w.conditionOf(corev1.NodeReady) == "True KubeletReady"
		})
		w.play(play)
		transcript = w.transcript
	})
	return transcript
}

// compare compares a transcript with the one that is wanted.
func (s scenario) compare(t *testing.T, transcript []string) {
	t.Helper()
	want := strings.ReplaceAll(strings.TrimSpace(s.want), "\n\t\t", "\n")
	if got := strings.Join(transcript, "\n"); got != want {
		t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

func TestScenariosInModel(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) { s.compare(t, inModel(t, s.play)) })
	}
}
