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
	t       *testing.T
	r       *rand.Rand
	l       *pdbTracker
	drains  []*simulatedDrain
	allowed int32           // as the API server has it
	status  map[string]bool // its DisruptedPods
	watch   []*policyv1.PodDisruptionBudget
	asked   []simulatedRequest
	answers []func()
	refused int // requests for what the tracker had allowed
	granted int
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
	mk := &simulation{t: t, r: rand.New(rand.NewPCG(seed, 4)), l: newTracker(t), status: map[string]bool{}}
	mk.allowed = int32(mk.r.IntN(3))
	mk.publish()
	mk.l.update(mk.watch[0])
	mk.watch = nil
	for i := range 1 + mk.r.IntN(4) {
		s := &simulatedDrain{waiter: newWaiter(fmt.Sprint("n", i), time.Duration(mk.r.IntN(3))*time.Minute)}
		for j := range 1 + mk.r.IntN(4) {
			s.waiting = append(s.waiting, fmt.Sprintf("pod-%d-%d", i, j))
		}
		mk.drains = append(mk.drains, s)
	}
	return mk
}

// publish sends the state of the API server to the watch.
func (mk *simulation) publish() {
	p := newPDB(mk.allowed)
	p.Status.DisruptedPods = map[string]metav1.Time{}
	for pod := range mk.status {
		p.Status.DisruptedPods[pod] = metav1.Now()
	}
	mk.watch = append(mk.watch, p)
}

// decide is a pass of a drain, as run.decide and run.act make it.
func (mk *simulation) decide(s *simulatedDrain) {
	s.woken()
	s.decided = true
	b, ok := mk.l.budget("x/b", s.waiter)
	if !ok {
		mk.t.Fatal("the budget has gone")
	}
	bet := !b.ProbeAt.IsZero() && !time.Now().Before(b.ProbeAt)
	s.again = earliest(b.ProbeAt, b.StaleUntil)
	var still []string
	for _, pod := range s.waiting {
		if sure := b.Allowed > 0; (sure || bet) && mk.l.reserve("x/b", pod) {
			mk.asked = append(mk.asked, simulatedRequest{s, pod, !sure})
			b.Allowed--
			bet = false
			continue
		}
		still = append(still, pod)
	}
	s.waiting = still
	if len(still) == 0 {
		mk.l.waitFor(s.waiter, -1)
		return
	}
	mk.l.waitFor(s.waiter, len(still))
}

// serve has the API server decide about one request; its answer comes later.
func (mk *simulation) serve(i int) {
	a := mk.asked[i]
	mk.asked = append(mk.asked[:i], mk.asked[i+1:]...)
	if mk.r.IntN(10) == 0 {
		mk.answer(a, Deferred)
		return
	}
	if mk.allowed <= 0 {
		if !a.probe {
			mk.refused++
		}
		mk.answer(a, Blocked)
		return
	}
	mk.allowed--
	mk.granted++
	mk.status[a.pod] = true
	mk.publish()
	mk.answer(a, Accepted)
}

func (mk *simulation) answer(a simulatedRequest, outcome Outcome) {
	mk.answers = append(mk.answers, func() {
		mk.l.release("x/b", a.pod, outcome)
		if outcome != Accepted {
			a.by.waiting = append(a.by.waiting, a.pod)
		}
		a.by.wakeUp()
	})
}

// step lets something happen, and returns false if nothing can but the change of the budget, or time.
func (mk *simulation) step() bool {
	var may []func()
	for _, s := range mk.drains {
		if len(s.changed) > 0 || !s.decided {
			may = append(may, func() { mk.decide(s) })
		}
	}
	if n := len(mk.asked); n > 0 {
		may = append(may, func() { mk.serve(mk.r.IntN(n)) })
	}
	if n := len(mk.answers); n > 0 {
		i := mk.r.IntN(n)
		may = append(may, func() {
			answer := mk.answers[i]
			mk.answers = append(mk.answers[:i], mk.answers[i+1:]...)
			answer()
		})
	}
	if len(mk.watch) > 0 {
		may = append(may, func() { mk.l.update(mk.watch[0]); mk.watch = mk.watch[1:] })
	}
	if len(may) == 0 {
		return false
	}
	may[mk.r.IntN(len(may))]()
	return true
}

// raiseAllowance has a replacement become healthy; the pods that were disrupted have gone from the status.
func (mk *simulation) raiseAllowance() {
	mk.allowed++
	clear(mk.status)
	mk.publish()
}

func (mk *simulation) waiting() (n int) {
	for _, s := range mk.drains {
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
			mk := newSimulation(t, seed)
			for rises := 0; ; {
				if mk.r.IntN(15) == 0 && rises < 40 {
					mk.raiseAllowance()
					rises++
				}
				if mk.step() {
					continue
				}
				if mk.waiting() == 0 {
					break
				}
				if mk.allowed > 0 {
					t.Fatalf("seed %d: no drain is woken while %d pods wait, and %d disruptions are allowed", seed, mk.waiting(), mk.allowed)
				}
				mk.raiseAllowance()
			}
			if mk.refused > 0 {
				t.Fatalf("seed %d: %d of %d requests were refused", seed, mk.refused, mk.refused+mk.granted)
			}
		})
	}
}

// TestTrackerRecoversFromDisruptionsOfOthers has another client evict pods, which the watch shows late.
// Then requests are refused, one at a time, and still no drain waits forever.
func TestTrackerRecoversFromDisruptionsOfOthers(t *testing.T) {
	for seed := range uint64(1_000) {
		synctest.Test(t, func(t *testing.T) {
			mk := newSimulation(t, seed)
			for turns := 0; mk.waiting()+len(mk.asked)+len(mk.answers) > 0; turns++ {
				if turns > 5_000 {
					t.Fatalf("seed %d: %d wait forever", seed, mk.waiting())
				}
				switch n := mk.r.IntN(20); {
				case n == 0:
					mk.raiseAllowance()
				case n == 1 && mk.allowed > 0:
					mk.allowed--
					mk.publish()
				}
				if mk.step() {
					continue
				}
				if mk.r.IntN(2) == 0 {
					mk.raiseAllowance()
					continue
				}
				for _, s := range mk.drains { // The loop looks again by itself.
					if len(s.waiting) > 0 && !s.again.IsZero() {
						elapse(max(time.Until(s.again), 0))
						s.wakeUp()
					}
				}
			}
		})
	}
}
