package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podResource = schema.GroupResource{Resource: "pods"}

// blockedError is what the eviction API answers for a pod whose budget allows no disruption.
func blockedError(retryAfter int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    policyv1.DisruptionBudgetCause,
		Message: "The disruption budget b needs 2 healthy pods and has 2 currently",
	}}
	return err
}

// twoBudgets is what the eviction API answers for a pod of two budgets: a status without a reason.
func twoBudgets() error {
	return apierrors.FromObject(&metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	})
}

// forbiddenByBudget is what the eviction API answers while more than 2,000 evictions of pods of the budget are not
// confirmed. The cause is as of Kubernetes 1.37.
func forbiddenByBudget(cause metav1.CauseType) error {
	err := apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), "b",
		errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	if cause != "" {
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause, Message: "too many evictions"}}
	}
	return err
}

func TestOutcomes(t *testing.T) {
	check := func(name string, err error, evict Outcome, deletion Outcome, pause time.Duration) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			err := remover{realClient(t, answering(err))}.evict(t.Context(), Removal{Pod: pod("a")})
			outcome, why := evictionOutcome(err)
			if outcome != evict {
				t.Errorf("eviction: got %s (%s), want %s", outcome, why, evict)
			}
			if got, _ := deletionOutcome(err); got != deletion {
				t.Errorf("deletion: got %s, want %s", got, deletion)
			}
			next := Removal{}.next(outcome, why, err, t0)
			want := max(pause, time.Second)
			if pause := next.Next.Sub(t0); pause < want || pause > want+want/4 {
				t.Errorf("pause: got %v, want %v and up to a quarter more", pause, want)
			}
		})
	}
	check("accepted", nil, Accepted, Forced, podUpdateTimeout)
	check("404, and the pod is there", apierrors.NewNotFound(podResource, "a"), Refused, Denied, 0)
	check("409, and the pod is there", apierrors.NewConflict(podResource, "a", errors.New("changed")), Deferred, Deferred, 0)
	for _, code := range []int32{403, 404, 409, 429, 500, 503} {
		check(fmt.Sprint("a webhook denies with ", code), deniedBy("guard.example.com", code), Refused, Denied, 0)
	}
	check("a ValidatingAdmissionPolicy denies with 401", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnauthorized,
		Message: `pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`,
	}}, Refused, Denied, 0)
	check("429 with the cause DisruptionBudget", blockedError(0), Blocked, Deferred, 0)
	check("429 with the cause DisruptionBudget and a delay", blockedError(10), Blocked, Deferred, 10*time.Second)
	check("429 without the cause: rate limit of the API server", apierrors.NewTooManyRequests("busy", 0), Deferred, Deferred, 0)
	check("429 with a delay", apierrors.NewTooManyRequests("busy", 7), Deferred, Deferred, 7*time.Second)
	check("403 of a budget, since Kubernetes 1.37", forbiddenByBudget("DisruptionBudgetTooManyDisruptedPods"), Blocked, Denied, 0)
	check("403 of a budget, before", forbiddenByBudget(""), Blocked, Denied, 0)
	check("500: two budgets", twoBudgets(), Blocked, Deferred, 0)
	check("500: anything else", apierrors.NewInternalError(errors.New("etcd")), Deferred, Deferred, 0)
	check("400", apierrors.NewBadRequest("not an Eviction"), Refused, Denied, 0)
	check("403: missing permission or an admission webhook",
		apierrors.NewForbidden(podResource, "a", errors.New("admission webhook denied the request")), Refused, Denied, 0)
	check("422", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), Refused, Denied, 0)
	check("401: expired token", apierrors.NewUnauthorized("expired"), Deferred, Deferred, 0)
	check("408", apierrors.NewTimeoutError("slow", 0), Deferred, Deferred, 0)
	check("504 with a delay, after too many conflicts", apierrors.NewTimeoutError("conflicts", 10), Deferred, Deferred, 10*time.Second)
	check("503", apierrors.NewServiceUnavailable("starting"), Deferred, Deferred, 0)
	check("timeout", context.DeadlineExceeded, Deferred, Deferred, 0)
	check("connection refused", syscall.ECONNREFUSED, Deferred, Deferred, 0)
}

// answering returns an API server with one answer.
func answering(err error) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		if want := "/api/v1/namespaces/x/pods/a/eviction"; r.URL.Path != want {
			return nil, fmt.Errorf("got a request for %s, want %s", r.URL.Path, want)
		}
		return respond(err)
	}
}

func TestMessageOfABlockedEviction(t *testing.T) {
	for _, err := range []error{blockedError(0), twoBudgets()} {
		got := remover{realClient(t, answering(err))}.evict(t.Context(), Removal{Pod: pod("a")})
		if _, why := evictionOutcome(got); why != message(err) || strings.Contains(why, "Cannot evict pod") {
			t.Errorf("got %q, want %q", why, message(err))
		}
	}
}

// deniedBy is what the API server answers if a webhook denies a request with this code.
func deniedBy(webhook string, code int32) error {
	return apierrors.FromObject(&metav1.Status{
		Status: metav1.StatusFailure, Code: code, Message: fmt.Sprintf("admission webhook %q denied the request: busy", webhook),
	})
}

// TestMayBeGone: 404 and 409 say that a pod is gone only if they are about the pod, and no webhook's.
func TestMayBeGone(t *testing.T) {
	about := func(kind, name string) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
	}
	forged := deniedBy("guard.example.com", http.StatusNotFound)
	if status, ok := errors.AsType[*apierrors.StatusError](forged); ok {
		status.ErrStatus.Reason = metav1.StatusReasonNotFound
		status.ErrStatus.Details = &metav1.StatusDetails{Kind: "pods", Name: "a"}
	}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"the pod", about("pods", "a"), true},
		{"another UID", apierrors.NewConflict(podResource, "a", errors.New("the UID in the precondition does not match")), true},
		{"another pod", about("pods", "b"), false},
		{"its budget", about("poddisruptionbudgets", "a"), false},
		{"a conflict of its budget", apierrors.NewConflict(schema.GroupResource{Resource: "poddisruptionbudgets"}, "a", errors.New("changed")), false},
		{"a webhook that copies the details", forged, false},
		{"forbidden", errForbidden, false},
		{"no status", context.DeadlineExceeded, false},
	} {
		if got := mayBeGone(tt.err, Pod{Namespace: "x", Name: "a"}); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}

func TestNameOfAWebhook(t *testing.T) {
	denied := func(code int32) error {
		return apierrors.FromObject(&metav1.Status{
			Status: metav1.StatusFailure, Code: code,
			Message: `admission webhook "strimzi-drain-cleaner.strimzi.io" denied the request: The pod will be rolled`,
		})
	}
	for err, want := range map[error]string{
		denied(http.StatusForbidden):           "strimzi-drain-cleaner.strimzi.io",
		denied(http.StatusInternalServerError): "strimzi-drain-cleaner.strimzi.io",
		apierrors.NewInternalError(errors.New(`failed calling webhook "guard.example.com": context deadline exceeded`)): "guard.example.com",
		errForbidden:    "",
		blockedError(0): "",
	} {
		got := remover{realClient(t, answering(err))}.evict(t.Context(), Removal{Pod: pod("a")})
		outcome, why := evictionOutcome(got)
		if try := (Removal{}).next(outcome, why, got, t0); try.Webhook != want {
			t.Errorf("%v: got %q, want %q", err, try.Webhook, want)
		}
	}
}

func TestRetryPauses(t *testing.T) {
	var try Try
	now := t0
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		want *= time.Second
		try = Removal{Pod: Pod{Try: try}}.next(Deferred, "busy", errors.New("busy"), now)
		if pause := try.Next.Sub(now); pause < want || pause > want+want/4 {
			t.Errorf("attempt %d: got a pause of %v, want %v and up to a quarter more", try.Failures, pause, want)
		}
		now = try.Next
	}
	if try = (Removal{Pod: Pod{Try: try}}).next(Accepted, "", nil, now); try.Failures != 0 || try.Message != "" {
		t.Errorf("a success keeps the failures: %+v", try)
	}
}

func TestBlockedPodsHaveNoPause(t *testing.T) {
	r := Removal{Pod: Pod{Try: Try{Failures: 3}}, Budget: "x/b"}
	if diff := cmp.Diff(Try{Last: Blocked, Message: "held"}, r.next(Blocked, "held", blockedError(10), t0)); diff != "" {
		t.Error(diff)
	}
}

func TestDeleteOptions(t *testing.T) {
	for grace, want := range map[time.Duration]*int64{
		0:                              nil, // the pod's own
		12 * time.Second:               new(int64(12)),
		time.Second + time.Millisecond: new(int64(2)),
		time.Millisecond:               new(int64(1)),
	} {
		o := deleteOptions(Removal{Pod: pod("a"), Grace: grace})
		if diff := cmp.Diff(want, o.GracePeriodSeconds); diff != "" || *o.Preconditions.UID != "uid-a" {
			t.Errorf("%v: got %+v", grace, o)
		}
	}
}
