package kube

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Record is one answer to a client. The objects are shared: do not change them.
type Record struct {
	At        time.Time // when it was decided
	Client    string
	Verb      string // get, list, watch, create, update, patch or delete, as in RBAC
	Resource  string // with its subresource, for example pods/eviction
	Namespace string
	Name      string

	Code    int
	Reason  metav1.StatusReason // of a refusal
	Message string              // of a refusal

	Object  Object                          // of a write: as it was before, or nil
	Budgets []*policyv1.PodDisruptionBudget // of an eviction or a pod's deletion: as they were before
	Grace   *int64                          // of these too: the grace period asked for, in seconds
	UID     string                          // of these too: the precondition
	DryRun  bool
	Patch   string // the body of a patch
	Webhook string // the name of the webhook that refused
	// Canceled is of an eviction that the client canceled while the API server decided: it was counted against its budget,
	// and the pod was not deleted.
	Canceled bool
}

// IsWrite reports whether the request may change something.
func (r Record) IsWrite() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// IsEviction reports whether the request evicts a pod.
func (r Record) IsEviction() bool { return r.Resource == "pods/eviction" }

// IsDeletion reports whether the request deletes a pod in spite of its budget.
func (r Record) IsDeletion() bool { return r.Resource == "pods" && r.Verb == "delete" }

// OK reports whether the request was accepted.
func (r Record) OK() bool { return r.Code < 300 }
