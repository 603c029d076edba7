package drain

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// simulation is a pdbTracker between drains and a model of the API server, whose watch and answers arrive
// late, each in its order.
type simulation struct {
	t        *testing.T
	r        *rand.Rand
	l        *pdbTracker
	drains   []*simulatedDrain
	allowed  int32           // as the API server has it
	status   map[string]bool // its DisruptedPods
	watch    []*policyv1.PodDisruptionBudget
	requests []simulatedRequest
	answers  []func()
	refused  int // requests for what the tracker had allowed
	granted  int
}

// simulatedDrain is a drain with pods that wait for x/b.
type simulatedDrain struct {
	*waiter
	waiting []string
	decided bool // and has nothing to do until it is woken
	again   time.Time
}

type simulatedRequest struct {
	by    *simulatedDrain
	pod   string
	probe bool // the budget seemed to allow nothing
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	sim := &simulation{t: t, r: rand.New(rand.NewPCG(seed, 4)), l: newTracker(t), status: map[string]bool{}}
	sim.allowed = int32(sim.r.IntN(3))
	sim.publish()
	sim.l.update(sim.watch[0])
	sim.watch = nil
	for i := range 1 + sim.r.IntN(4) {
		s := &simulatedDrain{waiter: newWaiter(fmt.Sprint("n", i), time.Duration(sim.r.IntN(3))*time.Minute)}
		for j := range 1 + sim.r.IntN(4) {
			s.waiting = append(s.waiting, fmt.Sprintf("pod-%d-%d", i, j))
		}
		sim.drains = append(sim.drains, s)
	}
	return sim
}

// publish sends the state of the API server to the watch.
func (sim *simulation) publish() {
	p := newPDB(sim.allowed)
	p.Status.DisruptedPods = map[string]metav1.Time{}
	for pod := range sim.status {
		p.Status.DisruptedPods[pod] = metav1.Now()
	}
	sim.watch = append(sim.watch, p)
}

// decide is a pass of a drain, as run.decide and run.act make it.
func (sim *simulation) decide(s *simulatedDrain) {
	s.woken()
	s.decided = true
	b, ok := sim.l.budget("x/b", s.waiter)
	if !ok {
		sim.t.Fatal("the budget has gone")
	}
	probe := !b.ProbeAt.IsZero() && !time.Now().Before(b.ProbeAt)
	s.again = earliest(b.ProbeAt, b.StaleUntil)
	var still []string
	for _, pod := range s.waiting {
		if sure := b.Allowed > 0; (sure || probe) && sim.l.reserve("x/b", pod) {
			sim.requests = append(sim.requests, simulatedRequest{s, pod, !sure})
			b.Allowed--
			probe = false
			continue
		}
		still = append(still, pod)
	}
	s.waiting = still
	if len(still) == 0 {
		sim.l.waitFor(s.waiter, -1)
		return
	}
	sim.l.waitFor(s.waiter, len(still))
}

// serve has the API server decide about one request; its answer comes later.
func (sim *simulation) serve(i int) {
	a := sim.requests[i]
	sim.requests = append(sim.requests[:i], sim.requests[i+1:]...)
	if sim.r.IntN(10) == 0 {
		sim.answer(a, Deferred)
		return
	}
	if sim.allowed <= 0 {
		if !a.probe {
			sim.refused++
		}
		sim.answer(a, Blocked)
		return
	}
	sim.allowed--
	sim.granted++
	sim.status[a.pod] = true
	sim.publish()
	sim.answer(a, Accepted)
}

func (sim *simulation) answer(a simulatedRequest, outcome Outcome) {
	sim.answers = append(sim.answers, func() {
		sim.l.release("x/b", a.pod, outcome)
		if outcome != Accepted {
			a.by.waiting = append(a.by.waiting, a.pod)
		}
		a.by.wakeUp()
	})
}

// step lets something happen, and returns false if nothing can but the change of the budget, or time.
func (sim *simulation) step() bool {
	var may []func()
	for _, s := range sim.drains {
		if len(s.changed) > 0 || !s.decided {
			may = append(may, func() { sim.decide(s) })
		}
	}
	if n := len(sim.requests); n > 0 {
		may = append(may, func() { sim.serve(sim.r.IntN(n)) })
	}
	if n := len(sim.answers); n > 0 {
		i := sim.r.IntN(n)
		may = append(may, func() {
			answer := sim.answers[i]
			sim.answers = append(sim.answers[:i], sim.answers[i+1:]...)
			answer()
		})
	}
	if len(sim.watch) > 0 {
		may = append(may, func() { sim.l.update(sim.watch[0]); sim.watch = sim.watch[1:] })
	}
	if len(may) == 0 {
		return false
	}
	may[sim.r.IntN(len(may))]()
	return true
}

// raiseAllowance has a replacement become healthy; the pods that were disrupted have gone from the status.
func (sim *simulation) raiseAllowance() {
	sim.allowed++
	clear(sim.status)
	sim.publish()
}

func (sim *simulation) waiting() (n int) {
	for _, s := range sim.drains {
		n += len(s.waiting)
	}
	return n
}

// TestReservationsNeverExceedWhatABudgetAllows has drains in any order with answers and a watch that come late.
// Without other clients, the API server refuses nothing that the tracker allowed, and no drain
// sleeps while there is something for him.
func TestReservationsNeverExceedWhatABudgetAllows(t *testing.T) {
	for seed := range uint64(1_200) {
		synctest.Test(t, func(t *testing.T) {
			sim := newSimulation(t, seed)
			for rises := 0; ; {
				if sim.r.IntN(15) == 0 && rises < 40 {
					sim.raiseAllowance()
					rises++
				}
				if sim.step() {
					continue
				}
				if sim.waiting() == 0 {
					break
				}
				if sim.allowed > 0 {
					t.Fatalf("seed %d: no drain is woken while %d pods wait, and %d disruptions are allowed", seed, sim.waiting(), sim.allowed)
				}
				sim.raiseAllowance()
			}
			if sim.refused > 0 {
				t.Fatalf("seed %d: %d of %d requests were refused", seed, sim.refused, sim.refused+sim.granted)
			}
		})
	}
}

// TestTrackerRecoversFromDisruptionsOfOthers has another client evict pods, which the watch shows late.
// Then requests are refused, one at a time, and still no drain waits forever.
func TestTrackerRecoversFromDisruptionsOfOthers(t *testing.T) {
	for seed := range uint64(1_000) {
		synctest.Test(t, func(t *testing.T) {
			sim := newSimulation(t, seed)
			for turns := 0; sim.waiting()+len(sim.requests)+len(sim.answers) > 0; turns++ {
				if turns > 5_000 {
					t.Fatalf("seed %d: %d wait forever", seed, sim.waiting())
				}
				switch n := sim.r.IntN(20); {
				case n == 0:
					sim.raiseAllowance()
				case n == 1 && sim.allowed > 0:
					sim.allowed--
					sim.publish()
				}
				if sim.step() {
					continue
				}
				if sim.r.IntN(2) == 0 {
					sim.raiseAllowance()
					continue
				}
				for _, s := range sim.drains { // The drain decides again by itself.
					if len(s.waiting) > 0 && !s.again.IsZero() {
						elapse(max(time.Until(s.again), 0))
						s.wakeUp()
					}
				}
			}
		})
	}
}
