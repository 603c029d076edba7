package drain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// callTimeout bounds a request: one that hangs must not hold a drain.
	callTimeout = 15 * time.Second
	// settleTime is how long an accepted eviction may take to show in the watch before it is sent again.
	settleTime = 15 * time.Second
	// firstRetry and lastRetry bound the pause after an attempt that failed.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// soonestRetry is the least pause after a refusal by a budget that seems to allow the eviction: the watch
	// may be behind, and other drains use up the same budget.
	soonestRetry = 50 * time.Millisecond
)

// evict asks the API server to evict the pod: this pod, by its UID, and not another of its name that has
// taken its place, perhaps on a healthy node.
func (d *Drainer) evict(ctx context.Context, r Removal) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.client.CoreV1().Pods(r.Pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: r.Pod.Namespace, Name: r.Pod.Name},
		DeleteOptions: deleteOptions(r),
	})
}

// delete deletes the pod past its budget, by its UID.
func (d *Drainer) delete(ctx context.Context, r Removal) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.client.CoreV1().Pods(r.Pod.Namespace).Delete(ctx, r.Pod.Name, *deleteOptions(r))
}

func deleteOptions(r Removal) *metav1.DeleteOptions {
	uid := types.UID(r.Pod.UID)
	o := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if r.Grace > 0 {
		seconds := int64((r.Grace + time.Second - 1) / time.Second)
		o.GracePeriodSeconds = &seconds
	}
	return o
}

// evicted says what an answer to an eviction means.
func evicted(err error) (Outcome, string) {
	switch {
	case err == nil, isGone(err):
		return Accepted, ""
	case isBudget(err):
		return Blocked, message(err)
	case isRefusal(err):
		return Refused, message(err)
	}
	return Deferred, message(err)
}

// forced says what an answer to a deletion means.
func forced(err error) (Outcome, string) {
	switch {
	case err == nil, isGone(err):
		return Forced, ""
	case isRefusal(err):
		return Denied, message(err)
	}
	return Deferred, message(err)
}

// isGone: 404, there is no such pod; 409, there is one of the same name with another UID. Either way the pod
// that was to go has gone.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// isBudget: 429 with the cause DisruptionBudget, a budget forbids it now. 500 that names more than one
// budget, the eviction API serves no pod that two budgets select
// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go). A 429 without that cause comes from the API
// server's own limits and has nothing to do with the pod.
func isBudget(err error) bool {
	if apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		return true
	}
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget")
}

// isRefusal: what asking again will not change, unless somebody changes the agent's permissions or the pod.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && code != http.StatusUnauthorized
}

func message(err error) string {
	if apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok {
			return cause.Message
		}
	}
	return err.Error()
}

// next is what is noted of the pod after an attempt, and says when it may be tried again: after what the API
// server asks for, else after a pause that doubles. A ready pod that one budget holds is woken when the
// budget allows more; its pause is only there for what the watch may miss.
func (p Pod) next(outcome Outcome, why string, err error, now time.Time) Try {
	if outcome == Accepted || outcome == Forced {
		return Try{Last: outcome, Next: now.Add(settleTime)}
	}
	n := p.Try.N + 1
	pause := min(firstRetry<<min(n-1, 10), lastRetry)
	if outcome == Blocked && p.Ready && len(p.Budgets) == 1 {
		pause = lastRetry
		if !now.Before(p.Try.Next) {
			n = 1 // it was its time, and no rise of the budget that the API server did not bear out
		}
	}
	soon := min(soonestRetry<<min(n-1, 10), firstRetry)
	if asked, ok := apierrors.SuggestsClientDelay(err); ok {
		soon = time.Duration(asked) * time.Second
		pause = max(pause, soon)
	}
	pause += rand.N(pause / 4) //nolint:gosec // spreads requests, keeps no secret
	return Try{Last: outcome, Soon: now.Add(soon), Next: now.Add(pause), N: n, Why: why}
}

// list reads the pods of the node from the API server, past every cache.
func (d *Drainer) list(ctx context.Context, node string) ([]Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := d.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: onNode(node)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	var left []Pod
	for i := range out.Items {
		if pod := toPod(&out.Items[i]); pod.Stays == "" {
			left = append(left, pod)
		}
	}
	return left, nil
}
