package drain

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// primaryPDB is a budget over the primary of a database alone, which requires it.
func primaryPDB(change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	pdb := newPDB(0)
	one := intstr.FromInt32(1)
	pdb.Spec.MaxUnavailable, pdb.Spec.MinAvailable = nil, &one
	pdb.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	change(pdb)
	return pdb
}

func ownedByOperator(pdb *policyv1.PodDisruptionBudget) {
	pdb.OwnerReferences = []metav1.OwnerReference{{APIVersion: "postgresql.cnpg.io/v1", Kind: "Cluster", Name: "db", UID: "1"}}
}

// TestBudgetsOfOperatorsAreNotMisconfigured: their operator moves the primary, and the budget with it, after it has
// seen that the node is cordoned.
func TestBudgetsOfOperatorsAreNotMisconfigured(t *testing.T) {
	for name, change := range map[string]func(*policyv1.PodDisruptionBudget){
		"owned by the operator's object": ownedByOperator,
		"of Zalando's operator, which sets no owner": func(pdb *policyv1.PodDisruptionBudget) {
			pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "spilo-role": "master"}}
		},
	} {
		virtual(t, name, func(t *testing.T) {
			primary := runningPod("a")
			primary.Labels["spilo-role"] = "master"
			c := startCluster(t, defaults, primary, primaryPDB(change))
			wait := c.drain("n", time.Hour)
			elapse(30 * time.Second)
			if blocked := c.blockedPods(); len(blocked) > 0 {
				t.Errorf("reported %q within half a minute", blocked)
			}
			c.deleteBudget("web") // the switchover
			c.expectDrained(wait, 1)
		})
	}
}

// TestAnOperatorsBudgetIsAskedEarly: Strimzi's budget allows nothing, and a webhook that sees the eviction has the
// operator roll the pod.
func TestAnOperatorsBudgetIsAskedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, defaults, runningPod("a"), primaryPDB(ownedByOperator))
		c.answer = func(string) error {
			time.AfterFunc(5*time.Second, func() { c.end(runningPod("a")) })
			return apierrors.FromObject(&metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: `admission webhook "strimzi-drain-cleaner.strimzi.io" denied the request: The pod will be rolled`,
			})
		}
		c.expectDrained(c.drain("n", time.Hour), 1)
		if at := requestTimes(c, "evict"); len(at) == 0 || at[0] > time.Second {
			t.Errorf("asked after %v", at)
		}
		c.expect(t, "1 of 1 left [1 wait for admission webhook strimzi-drain-cleaner.strimzi.io]")
	})
}
