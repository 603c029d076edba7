package drain

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

func BenchmarkDecide(b *testing.B) {
	for _, bm := range []struct {
		name    string
		allowed int
	}{{"evicts", 100}, {"waits", 0}} {
		b.Run(bm.name, func(b *testing.B) {
			s := State{Since: t0, Budgets: map[string]Budget{}}
			for i := range 5 {
				s.Budgets[fmt.Sprint("x/b-", i)] = Budget{Allowed: bm.allowed, Healthy: 20, Desired: 20, Expected: 21}
			}
			for i := range 100 {
				s.Pods = append(s.Pods, pod(fmt.Sprintf("pod-%03d", i), budgeted(fmt.Sprint("x/b-", i%5)), grace(time.Duration(i%5)*time.Minute)))
			}
			policy := defaultPolicy()
			policy.ForceSpacing, policy.StuckAfter = 30*time.Second, 5*time.Minute
			b.ReportAllocs()
			for b.Loop() {
				Decide(s, at(time.Minute), at(window), policy)
			}
		})
	}
}

// unwatchedRun is a drain that does not watch its pods.
func unwatchedRun(b *testing.B, d *Drainer, t Target) *run {
	b.Helper()
	r, err := newRun(d, t)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkPass is one decision about 100 pods that five of 500 budgets block: the cost of each wake-up.
func BenchmarkPass(b *testing.B) {
	l, err := newPDBTracker(fake.NewClientset())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 500 {
		p := newPDB(0)
		p.Name = fmt.Sprint("b-", i)
		p.Spec.Selector.MatchLabels["app"] = fmt.Sprint("app-", i)
		l.update(p)
	}
	d := &Drainer{client: fake.NewClientset(), cfg: defaults, policy: defaults.policy(), observer: newRecorder(), pdbs: l}
	if d.rules, err = newRules(defaults, Environment{Taint: ourTaint, Unreachable: func(string) bool { return false }}); err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	var others []*run
	for i := range 20 {
		others = append(others, unwatchedRun(b, d, Target{Name: fmt.Sprint("other-", i), Since: now, Deadline: now.Add(time.Hour)}))
	}
	var records []*record
	for i := range 100 {
		p := runningPod(fmt.Sprint("pod-", i))
		p.Labels["app"] = fmt.Sprint("app-", i%5)
		records = append(records, d.rules.record(p))
	}
	for _, r := range others {
		r.act(b.Context(), r.decide(b.Context(), records))
	}
	r := unwatchedRun(b, d, Target{Name: "n", Since: now, Deadline: now.Add(2 * time.Hour)})
	b.ReportAllocs()
	for b.Loop() {
		step := r.decide(b.Context(), records)
		r.act(b.Context(), step)
		r.progress.report(step, r.removals.report().Total)
	}
}
