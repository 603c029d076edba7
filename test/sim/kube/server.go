package kube

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Object is what the server stores.
type Object interface {
	runtime.Object
	metav1.Object
}

// Server is the API server. Create it in a bubble of testing/synctest with New. The fields may be set before it serves.
type Server struct {
	// Latency is how long a request takes on average: from half to one and a half times as long, half of it before
	// the server decides. The seed and the request decide, so that a replay gives the same.
	Latency time.Duration
	// Bookmarks is how often a watch that asks for bookmarks gets one; never if it is zero.
	Bookmarks time.Duration
	// Audit is called for each answer, except to the reads of a watch. It must not call the server.
	Audit func(Record)
	// OnChange is called for each change of an object, when it is made. It must not call the server.
	OnChange func(Change)

	store
	mu       sync.Mutex
	seed     uint64
	random   *rand.Rand
	clock    clock
	watches  watchers
	faults   faults
	requests map[string]int // of each kind, for their latency
}

// New returns a server with these objects.
func New(seed uint64, objects ...Object) *Server {
	s := &Server{
		store: newStore(), seed: seed, random: rand.New(rand.NewPCG(seed, 0)),
		watches: watchers{}, requests: map[string]int{},
	}
	s.clock.mu = &s.mu
	s.onChange = []func(*Change){s.watches.show, func(c *Change) {
		if s.OnChange != nil {
			s.OnChange(*c)
		}
	}}
	for _, o := range objects {
		if err := s.Create(o); err != nil {
			panic(err) // The test gives two objects the same name.
		}
	}
	return s
}

// Client returns a client with the agent's settings that calls the server under a name.
func (s *Server) Client(name string) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host: "http://kubernetes", Transport: s.Transport(name), QPS: -1, UserAgent: name,
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
		{"configmaps", schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}},
		{"events", schema.GroupVersionKind{Version: "v1", Kind: "Event"}},
		{"persistentvolumeclaims", schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}},
		{"deployments", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}},
		{"daemonsets", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}},
		{"replicasets", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}},
		{"statefulsets", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}},
		{"jobs", schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}},
		{"leases", schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}},
		{"poddisruptionbudgets", schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}},
		{"volumeattachments", schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment"}},
	}
}

// resourceFor returns the resource of a type, which must be one of this server's.
func resourceFor[T Object](s *store) resource { return s.kinds[reflect.TypeFor[T]()] }

func nameOf(o Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// operator is the actor of the changes that a test makes.
const operator = "operator"

// Create stores a copy of an object, as an operator would.
func (s *Server) Create(o Object) error {
	r, ok := s.kinds[reflect.TypeOf(o)]
	if !ok {
		return fmt.Errorf("%T is not a resource of this server", o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.create(operator, r, o.DeepCopyObject().(Object)) //nolint:forcetypeassert // A copy has the same type.
	return err
}

// Update changes an object, as an operator would, and reports whether there is one. A change without effect is no
// change.
func Update[T Object](s *Server, name types.NamespacedName, change func(T)) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return update(&s.store, operator, name, change)
}

// Remove removes an object of a type at once, if there is one.
func Remove[T Object](s *Server, name types.NamespacedName) {
	r := resourceFor[T](&s.store)
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.get(r.name, name); before != nil {
		s.put(operator, r, before, nil)
	}
}

// Get returns an object of a type, if there is one. It is shared: do not change it.
func Get[T Object](s *Server, name types.NamespacedName) (found T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.get(resourceFor[T](&s.store).name, name)
	if e == nil {
		return found, false
	}
	return e.Object.(T), true //nolint:forcetypeassert // The table has one type.
}

// List returns all objects of a type, by name. They are shared: do not change them.
func List[T Object](s *Server) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return all[T](s.tables[resourceFor[T](&s.store).name])
}
