package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// readTimeout bounds a request that no admission webhook sees, so that one without an answer does not stop a drain.
	readTimeout = 15 * time.Second
	// writeTimeout bounds a request that admission webhooks see. It is longer than the API server takes for all of
	// them together, since the end of a request in the client ends it in the API server as well, and a webhook that
	// may be ignored is ignored only when its own time is over (kube-apiserver --request-timeout, which is 1m0s).
	writeTimeout = 65 * time.Second
	// lastCallTimeout bounds the last eviction of a pod, and how long it waits for a slot: what that takes is lost
	// to the grace period if the pod must be deleted. The API server retries conflicts for half a second at a time.
	lastCallTimeout = 5 * time.Second
	// evictionEnd is how long an eviction that is in flight may still take when its drain has ended.
	evictionEnd = time.Second
	// podUpdateTimeout is how long the watch may take to show an accepted eviction before it is sent again.
	podUpdateTimeout = 15 * time.Second
	// firstRetry and lastRetry bound the pause after an attempt that failed.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// maxDeletionErrors is how many internal errors in a row make the drain give up deleting a pod. The API
	// server answers with them if an admission webhook is broken.
	maxDeletionErrors = 3
)

// remover evicts and deletes pods.
type remover struct{ client kubernetes.Interface }

// evict evicts the pod with this UID, and not one of the same name that has replaced it on another node. If ctx ends it
// still waits for the answer, for evictionEnd: the API server counts an eviction against the budget, and deletes the
// pod only then, if the client has not canceled the request. A pod that it does not delete blocks its budget for two
// minutes (DeletionTimeout in pkg/controller/disruption of Kubernetes).
func (r remover) evict(ctx context.Context, removal Removal) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: removal.Pod.Namespace, Name: removal.Pod.Name},
		DeleteOptions: deleteOptions(removal),
	}
	timeout := writeTimeout
	if !removal.Until.IsZero() {
		timeout = min(max(time.Until(removal.Until), lastCallTimeout), writeTimeout)
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if retry.Sleep(sending, evictionEnd) {
			cancel()
		}
	})()
	return r.send(sending, http.MethodPost, removal.Pod, eviction, "eviction")
}

// delete deletes the pod with this UID, in spite of its budget.
func (r remover) delete(ctx context.Context, removal Removal) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.send(ctx, http.MethodDelete, removal.Pod, deleteOptions(removal))
}

// send sends a request without retries. The typed client would sleep inside the call for as long as a 429
// says.
func (r remover) send(ctx context.Context, verb string, pod Pod, body runtime.Object, subresource ...string) error {
	return r.client.CoreV1().RESTClient().Verb(verb).MaxRetries(0).Namespace(pod.Namespace).Resource("pods").
		Name(pod.Name).SubResource(subresource...).Body(body).Do(ctx).Error()
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

// find reads the pod from the API server, not from its cache. It returns nil if there is none with this UID.
func (r remover) find(ctx context.Context, pod Pod) (*metav1.ObjectMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := r.client.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("read the pod: %w", err)
	}
	for i := range list.Items {
		if found := &list.Items[i].ObjectMeta; string(found.UID) == pod.UID {
			return found, nil
		}
	}
	return nil, nil
}

// evictionOutcome classifies the answer to an eviction.
func evictionOutcome(err error) (Outcome, string) {
	switch {
	case err == nil:
		return Accepted, ""
	case isBlocked(err):
		return Blocked, message(err)
	case isRefusal(err):
		return Refused, message(err)
	}
	return Deferred, message(err)
}

// deletionOutcome classifies the answer to a deletion.
func deletionOutcome(err error) (Outcome, string) {
	switch {
	case err == nil:
		return Forced, ""
	case isRefusal(err):
		return Denied, message(err)
	}
	return Deferred, message(err)
}

// mayBeGone reports whether the answer says that the pod does not exist any more: 404, there is none of the name; 409,
// it has another UID. Both may be about something else, such as its PodDisruptionBudget, or the answer of an admission
// webhook, which chooses its code and details freely.
func mayBeGone(err error, pod Pod) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "pods" && details.Name == pod.Name && !isDenial(err)
}

// isDenial reports whether an admission webhook or a ValidatingAdmissionPolicy has denied the request. They choose the
// code (k8s.io/apiserver/pkg/admission/plugin/webhook/errors: ToStatusErr, and
// k8s.io/apiserver/pkg/admission/plugin/policy/validating: "denied request").
func isDenial(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook ") && strings.Contains(text, " denied the request") ||
		strings.Contains(text, "ValidatingAdmissionPolicy ") && strings.Contains(text, " denied request")
}

// isBlocked reports whether a budget blocks the eviction: 429 with the cause DisruptionBudget, 403 for the budget, or
// 500 that names more than one budget, since the eviction API refuses a pod that two budgets select
// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go). A 429 without that cause is the API server's
// own rate limit. The 403 ends by itself: the budget allows less than none, or too many evictions are not confirmed. It
// has a cause since Kubernetes 1.37; before, its details name the budget.
func isBlocked(err error) bool {
	if _, ok := budgetCause(err); ok {
		return true
	}
	var status apierrors.APIStatus
	if apierrors.IsForbidden(err) && errors.As(err, &status) && !isDenial(err) {
		details := status.Status().Details
		return details != nil && details.Group == policyv1.GroupName && details.Kind == "poddisruptionbudget"
	}
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget")
}

// budgetCause returns the cause of the answer that is about a budget.
func budgetCause(err error) (metav1.StatusCause, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return metav1.StatusCause{}, false
	}
	causes := status.Status().Details.Causes
	i := slices.IndexFunc(causes, func(c metav1.StatusCause) bool {
		return strings.HasPrefix(string(c.Type), string(policyv1.DisruptionBudgetCause))
	})
	if i < 0 {
		return metav1.StatusCause{}, false
	}
	return causes[i], true
}

// isRefusal reports whether a retry would get the same answer, unless the agent's permissions, the pod or an admission
// webhook change. A conflict is none: the API server may accept the same request a moment later.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusUnauthorized, http.StatusConflict:
		return isDenial(err)
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError || isDenial(err)
	}
}

// message is the text about the budget, without the one around it, or the whole error.
func message(err error) string {
	if cause, ok := budgetCause(err); ok {
		return cmp.Or(cause.Message, err.Error())
	}
	return err.Error()
}

// next returns the Try after an attempt, with the time of the next one: after the delay that the API server
// asks for, else after a pause that doubles. A pod blocked by a tracked budget has no pause of its own: the
// pdbTracker knows when to try again. A deletion does not inherit the pauses of the evictions before it.
func (r Removal) next(outcome Outcome, message string, err error, now time.Time) Try {
	switch {
	case outcome == Accepted:
		return Try{Last: outcome, Next: now.Add(podUpdateTimeout)}
	case outcome == Forced:
		return Try{Last: outcome, Next: now.Add(podUpdateTimeout), EndsAt: now.Add(cmp.Or(r.Grace, r.Pod.Grace))}
	case outcome == Blocked && r.Budget != "":
		return Try{Last: outcome, Message: message}
	}
	failures, evicting := r.Pod.Try.Failures, r.Kind.evicts()
	if !evicting && r.Pod.Try.Eviction {
		failures = 0
	}
	pause := pauseAfter(failures, err)
	failures++
	if !evicting && failures >= maxDeletionErrors && apierrors.IsInternalError(err) {
		outcome = Denied
	}
	webhook := webhookOf(message)
	var status apierrors.APIStatus
	if before := r.Pod.Try; before.Webhook != "" && err != nil && !errors.As(err, &status) {
		webhook, message = before.Webhook, before.Message // no answer says less than the one before
	}
	return Try{
		Last: outcome, Next: now.Add(jittered(pause)), Failures: failures, Message: message, Eviction: evicting,
		Webhook: webhook,
	}
}

// pauseAfter is the pause after a failure that follows others: at least what the API server asks for.
func pauseAfter(failures int, err error) time.Duration {
	pause := backoff(firstRetry, lastRetry, failures)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(time.Duration(seconds)*time.Second, lastRetry))
	}
	return pause
}

// webhookOf returns the name of the admission webhook that the message is about; empty if it is about none
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors: ToStatusErr, and
// k8s.io/apiserver/pkg/util/webhook: ErrCallingWebhook).
func webhookOf(message string) string {
	for _, before := range []string{`admission webhook "`, `failed calling webhook "`} {
		if _, after, found := strings.Cut(message, before); found {
			name, _, _ := strings.Cut(after, `"`)
			return name
		}
	}
	return ""
}
