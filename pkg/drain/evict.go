package drain

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// callTimeout bounds a request: one that hangs must not hold a drain.
	callTimeout = 15 * time.Second
	// podUpdateTimeout is how long an accepted eviction may take to show in the watch before it is sent again.
	podUpdateTimeout = 15 * time.Second
	// firstRetry and lastRetry bound the pause after an attempt that failed.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// broken is how often in a row the API server may fail to delete a pod, with an answer that blames nobody's
	// haste: as it does with an admission webhook that does not work.
	broken = 3
)

// remover takes pods away.
type remover struct{ client kubernetes.Interface }

// evict asks the API server to evict the pod: this pod, by its UID, and not another of its name that has
// taken its place, perhaps on a healthy node.
func (r remover) evict(ctx context.Context, removal Removal) error {
	pod := removal.Pod
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: deleteOptions(removal),
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, ok := r.request(http.MethodPost)
	if !ok {
		return r.client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, eviction)
	}
	return request.Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(eviction).Do(ctx).Error()
}

// delete deletes the pod past its budget, by its UID.
func (r remover) delete(ctx context.Context, removal Removal) error {
	pod := removal.Pod
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, ok := r.request(http.MethodDelete)
	if !ok {
		return r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *deleteOptions(removal))
	}
	return request.Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		Body(deleteOptions(removal)).Do(ctx).Error()
}

// request returns a request that comes back with the API server's answer whatever it is. The typed client
// sleeps for as long as a 429 asks, inside the call. A fake client has no requests.
func (r remover) request(verb string) (*rest.Request, bool) {
	client, ok := r.client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || client == nil {
		return nil, false
	}
	return client.Verb(verb).MaxRetries(0), true
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

// evictionOutcome says what an answer to an eviction means.
func evictionOutcome(err error) (Outcome, string) {
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

// deletionOutcome says what an answer to a deletion means.
func deletionOutcome(err error) (Outcome, string) {
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

// next is what is noted of a pod after an attempt, and says when it may be tried again: after what the API
// server asks for, else after a pause that doubles. A pod that waits for what a budget allows has no time of
// its own: the budget's account says when. A deletion does not inherit the pauses of evictions before it.
func (r Removal) next(outcome Outcome, why string, err error, now time.Time) Try {
	switch {
	case outcome == Accepted, outcome == Forced:
		return Try{Last: outcome, Next: now.Add(podUpdateTimeout)}
	case outcome == Blocked && r.Budget != "":
		return Try{Last: outcome, Message: why}
	}
	n, evicting := r.Pod.Try.Failures, r.Reason == ""
	if !evicting && r.Pod.Try.Eviction {
		n = 0
	}
	pause := min(firstRetry<<min(n, 10), lastRetry)
	if asked, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(time.Duration(asked)*time.Second, lastRetry))
	}
	n++
	if !evicting && n >= broken && apierrors.IsInternalError(err) {
		outcome = Denied
	}
	return Try{Last: outcome, Next: now.Add(jittered(pause)), Failures: n, Message: why, Eviction: evicting}
}
