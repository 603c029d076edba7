// Package kube models an API server of Kubernetes for tests in virtual time: it serves client-go without sockets, so
// that everything runs in one bubble of testing/synctest. Modeled are resource versions, lists and watches with
// selectors, watches that lag or must start again, optimistic locking, patches, graceful deletion, and the eviction
// API with PodDisruptionBudgets. There is no authentication, no admission and no conversion between versions.
package kube

import (
	"fmt"
	"reflect"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Object is what the server stores.
type Object interface {
	runtime.Object
	metav1.Object
}

// Request is one request of a client.
type Request struct {
	Verb        string // get, list, watch, create, update, patch or delete, as in RBAC
	Resource    string // with its subresource, for example pods/eviction
	Namespace   string
	Name        string
	UserAgent   string
	resource    resource
	subresource string
}

// Server is the API server. The functions may be nil, and must not be changed while it serves.
type Server struct {
	// Delay returns how long a request takes, and how long its answer takes. The request is decided in between.
	Delay func(Request) (request, answer time.Duration)
	// Lag returns how much later watches show a change.
	Lag func(Change) time.Duration
	// Refuse returns the error that answers a request instead of the server; nil lets it pass.
	Refuse func(Request) error
	// Lose reports whether the answer of a request that was decided is lost.
	Lose func(Request) bool

	store
}

// New returns a server with these objects.
func New(objects ...Object) *Server {
	s := &Server{store: newStore()}
	for _, o := range objects {
		if err := s.Create(o); err != nil {
			panic(err) // The test gives two objects the same name.
		}
	}
	return s
}

// Client returns a client that calls the server. It has no rate limit.
func (s *Server) Client(userAgent string) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host: "http://kubernetes", Transport: s, QPS: -1, UserAgent: userAgent,
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
	})
}

// resource is a kind of objects.
type resource struct {
	name string // plural, as in a URL
	kind schema.GroupVersionKind
}

func (r resource) group() schema.GroupResource {
	return schema.GroupResource{Group: r.kind.Group, Resource: r.name}
}

// resources returns all that the server knows.
func resources() []resource {
	return []resource{
		{"nodes", schema.GroupVersionKind{Version: "v1", Kind: "Node"}},
		{"pods", schema.GroupVersionKind{Version: "v1", Kind: "Pod"}},
		{"events", schema.GroupVersionKind{Version: "v1", Kind: "Event"}},
		{"persistentvolumeclaims", schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}},
		{"daemonsets", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}},
		{"replicasets", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}},
		{"leases", schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}},
		{"poddisruptionbudgets", schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}},
		{"volumeattachments", schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment"}},
	}
}

// resourceOf returns the resource of an object.
func resourceOf(o Object) (resource, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return resource{}, err
	}
	for _, r := range resources() {
		if r.kind == kinds[0] {
			return r, nil
		}
	}
	return resource{}, fmt.Errorf("%v is not a resource of this server", kinds[0])
}

// resourceFor returns the resource of a type, which must be one of this server's.
func resourceFor[T Object]() resource {
	empty := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(Object) //nolint:forcetypeassert // It is a T.
	r, err := resourceOf(empty)
	if err != nil {
		panic(err)
	}
	return r
}

func nameOf(o Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Create stores a copy of an object, as a controller would.
func (s *Server) Create(o Object) error {
	r, err := resourceOf(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.create(r, o)
	return err
}

// Update changes an object, as a controller would, and reports whether there is one. A change without effect is no
// change.
func Update[T Object](s *Server, name types.NamespacedName, change func(T)) (found bool) {
	r := resourceFor[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	before, found := s.objects[r.name][name]
	if found {
		after := before.DeepCopyObject().(T) //nolint:forcetypeassert // The resource has one type.
		change(after)
		if !apiequality.Semantic.DeepEqual(before, after) {
			s.put(r, before, after)
		}
	}
	return found
}

// Remove removes an object of a type at once, if there is one.
func Remove[T Object](s *Server, name types.NamespacedName) {
	r := resourceFor[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, found := s.objects[r.name][name]; found {
		s.put(r, before, nil)
	}
}

// List returns all objects of a type, by name. They are shared: do not change them.
func List[T Object](s *Server) []T {
	r := resourceFor[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []T
	for _, o := range sorted(s.objects[r.name]) {
		out = append(out, o.(T)) //nolint:forcetypeassert // The resource has one type.
	}
	return out
}
