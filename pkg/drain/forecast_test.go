package drain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// snapshot is what a plan reads of the cluster.
func (c *cluster) snapshot(cfg Config) *Snapshot {
	c.t.Helper()
	s, err := NewSnapshot(cfg, ourTaint)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods {
		s.AddPod(p)
	}
	for _, a := range c.apps {
		if err := s.AddBudget(a.pdb); err != nil {
			c.t.Fatal(err)
		}
	}
	return s
}

// startedIn has the conditions of a pod of a Deployment, or of another kind, say how long it took to start.
func startedIn(kind string, took time.Duration) func(*corev1.Pod) {
	isController := true
	return func(p *corev1.Pod) {
		created := time.Now().Add(-time.Hour)
		p.CreationTimestamp = metav1.Time{Time: created}
		p.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: created.Add(took)}
		p.OwnerReferences = []metav1.OwnerReference{{
			Kind: kind, Name: p.Labels["app"], UID: types.UID("uid-" + p.Labels["app"]), Controller: &isController,
		}}
	}
}

// randomNode adds a node with the pods of some apps to the cluster.
func (c *cluster) randomNode(r *rand.Rand, starts time.Duration) {
	for i := range 1 + r.IntN(5) {
		app, pods := fmt.Sprint("app-", i), 1+r.IntN(6)
		elsewhere := r.IntN(6)
		switch r.IntN(8) {
		case 0: // never allows a disruption
			c.addBudget(app, pods+elsewhere, elsewhere)
		case 1: // no budget
		default:
			c.addBudget(app, pods+elsewhere-1-r.IntN(2)*r.IntN(pods), elsewhere)
		}
		grace := oneOfThese[int64](r, 1, 5, 30, 30, 120, 400)
		for j := range pods {
			c.addPod("node", fmt.Sprintf("%s-%d", app, j), app, gracePeriod(grace), startedIn("ReplicaSet", starts),
				func(p *corev1.Pod) {
					if r.IntN(30) == 0 {
						p.Annotations = map[string]string{DrainAnnotation: Wait}
					}
					priority := oneOfThese[int32](r, 0, 0, 0, 2000000000)
					p.Spec.Priority = &priority
				})
		}
	}
}

// accuracy is how many forecasts of drains were right, and of pods that are removed by force.
type accuracy struct{ drains, near, forced, forecast, isWrong int }

func (a *accuracy) add(report Report, c Course) {
	a.drains++
	if (c.Took - report.Took).Abs() <= report.Took/5 {
		a.near++
	}
	for _, p := range report.Pods {
		if p.Reason != "" {
			a.forced++
		}
	}
	for _, name := range c.Forced {
		a.forecast++
		if !slices.ContainsFunc(report.Pods, func(p PodReport) bool { return p.Name == name && p.Reason != "" }) {
			a.isWrong++
		}
	}
}

// TestForecast compares forecasts with what drains of the same nodes then do: nine of ten take as long, but for a fifth, and
// of a hundred pods that a forecast says are removed by force, or are not, two at most are not, or are.
func TestForecast(t *testing.T) {
	t.Parallel()
	for name, stopsAtOnce := range map[string]bool{"pods that stop at once": true, "pods that need their grace periods": false} {
		var all accuracy
		for seed := range uint64(200) {
			virtual(t, fmt.Sprint(name, " ", seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				starts := time.Duration(1+r.IntN(60)) * time.Second
				c := newCluster(t)
				c.answers, c.watches = between(2*time.Millisecond, 20*time.Millisecond), between(time.Millisecond, 10*time.Millisecond)
				c.counts, c.starts = between(5*time.Millisecond, 50*time.Millisecond), constant(starts)
				c.stopsAtOnce = stopsAtOnce
				c.randomNode(r, starts)
				c.start(defaults)
				target := c.target("node", time.Duration(2+r.IntN(30))*time.Minute)
				forecast := c.snapshot(defaults).Forecast(target)
				course := forecast.Longest
				if stopsAtOnce {
					course = forecast.Expected
				}
				report, err := c.drainTarget(c.ctx, target)()
				if err != nil || forecast.Pods != report.Total {
					t.Fatalf("%d pods, the forecast was %d: %v", report.Total, forecast.Pods, err)
				}
				// That of the drain itself, which knows how long pods of the node took to start.
				if (report.Expected - forecast.Expected.Took).Abs() > max(time.Second, report.Expected/10) {
					t.Errorf("the drain expected to take %v, the snapshot said %v", report.Expected, forecast.Expected.Took)
				}
				all.add(report, course)
			})
		}
		if all.near*10 < all.drains*9 || all.isWrong*50 > all.forecast || (all.forced-all.forecast+all.isWrong)*50 > all.forced {
			t.Errorf("%s: %+v", name, all)
		}
		t.Logf("%s: %+v", name, all)
	}
}

// TestForecastWhileAPodStarts: a budget that allows nothing because a pod of it starts on another node allows an eviction
// when that is Ready.
func TestForecastWhileAPodStarts(t *testing.T) {
	s, err := NewSnapshot(defaults, ourTaint)
	if err != nil {
		t.Fatal(err)
	}
	p, budget := runningPod("web-1"), newPDB(0)
	startedIn("ReplicaSet", 20*time.Second)(p)
	s.AddPod(p)
	budget.Status.DesiredHealthy, budget.Status.CurrentHealthy, budget.Status.ExpectedPods = 3, 3, 4
	if err := s.AddBudget(budget); err != nil {
		t.Fatal(err)
	}
	f := s.Forecast(Target{Name: "n", Since: time.Now(), Deadline: time.Now().Add(time.Hour)})
	if f.Expected.Took < 20*time.Second || f.Expected.Took > 25*time.Second || len(f.Expected.Forced) > 0 {
		t.Errorf("got %+v", f)
	}
}

// BenchmarkForecast: a node with pods of Deployments of five, each of which may lack one pod.
func BenchmarkForecast(b *testing.B) {
	for _, pods := range []int{5, 30, 110} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			s, err := NewSnapshot(defaults, ourTaint)
			if err != nil {
				b.Fatal(err)
			}
			for i := range pods {
				p := runningPod(fmt.Sprint("pod-", i))
				p.Labels["app"] = fmt.Sprint("app-", i/5)
				startedIn("ReplicaSet", 20*time.Second)(p)
				s.AddPod(p)
				if i%5 == 0 {
					budget := newPDB(1)
					budget.Name, budget.Spec.Selector.MatchLabels["app"] = p.Labels["app"], p.Labels["app"]
					if err := s.AddBudget(budget); err != nil {
						b.Fatal(err)
					}
				}
			}
			target := Target{Name: "n", Since: time.Now(), Deadline: time.Now().Add(time.Hour)}
			for b.Loop() {
				if f := s.Forecast(target); f.Pods != pods {
					b.Fatalf("got %+v", f)
				}
			}
		})
	}
}
