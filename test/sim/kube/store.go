package kube

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Change is a change of one object. The objects are shared: do not change them.
type Change struct {
	At       time.Time
	Actor    string // the client or the controller that made it
	Resource string
	Old      Object // nil if it was created
	New      Object // nil if it was removed
	version  int64
	old, new *entry
	last     *entry // the old one with the version of its removal
}

// entry is one version of an object, which never changes, and how it is encoded.
type entry struct {
	Object
	kind  resource
	proto []byte
	json  []byte
}

// table has objects in the order of their names.
type table []*entry

func (t table) find(name types.NamespacedName) (int, bool) {
	return slices.BinarySearchFunc(t, name, func(e *entry, name types.NamespacedName) int {
		return cmp.Or(cmp.Compare(e.GetNamespace(), name.Namespace), cmp.Compare(e.GetName(), name.Name))
	})
}

// change replaces before by after, one of which may be nil.
func (t *table) change(before, after *entry) {
	if t == nil {
		return
	}
	if after == nil {
		if i, found := t.find(nameOf(before)); found {
			*t = slices.Delete(*t, i, i+1)
		}
		return
	}
	i, found := t.find(nameOf(after))
	if found {
		(*t)[i] = after
		return
	}
	*t = slices.Insert(*t, i, after)
}

// store has the objects, and all changes of them. It is used with the server's lock.
type store struct {
	version  int64 // the resource version of the last change
	serial   int   // of UIDs and names
	tables   map[string]*table
	byNode   map[string]*table    // pods
	byOwner  map[types.UID]*table // pods
	history  []*Change            // the change with version n is at n-1
	oldest   int64                // the resource version from which a watch can begin
	onChange []func(*Change)

	selectors map[types.UID]selector // of budgets
	kinds     map[reflect.Type]resource
}

func newStore() store {
	s := store{
		tables: map[string]*table{}, byNode: map[string]*table{}, byOwner: map[types.UID]*table{},
		selectors: map[types.UID]selector{}, kinds: map[reflect.Type]resource{},
	}
	for _, r := range resources() {
		s.tables[r.name] = &table{}
		s.kinds[reflect.PointerTo(scheme.Scheme.AllKnownTypes()[r.kind])] = r
	}
	return s
}

// get returns an object, or nil.
func (s *store) get(resource string, name types.NamespacedName) *entry {
	t := *s.tables[resource]
	if i, found := t.find(name); found {
		return t[i]
	}
	return nil
}

// pod returns a pod, or nil.
func (s *store) pod(name types.NamespacedName) *corev1.Pod {
	if e := s.get("pods", name); e != nil {
		return e.Object.(*corev1.Pod) //nolint:forcetypeassert // The table has pods.
	}
	return nil
}

// node returns a Node, or nil.
func (s *store) node(name string) *corev1.Node {
	if e := s.get("nodes", types.NamespacedName{Name: name}); e != nil {
		return e.Object.(*corev1.Node) //nolint:forcetypeassert // The table has Nodes.
	}
	return nil
}

// all returns the objects of a table, in the order of their names.
func all[T Object](t *table) []T {
	if t == nil {
		return nil
	}
	out := make([]T, 0, len(*t))
	for _, e := range *t {
		out = append(out, e.Object.(T)) //nolint:forcetypeassert // A table has one type.
	}
	return out
}

// create stores a new object, which the store owns from now on.
func (s *store) create(actor string, r resource, o Object) (*entry, error) {
	if s.get(r.name, nameOf(o)) != nil {
		return nil, apierrors.NewAlreadyExists(r.group(), o.GetName())
	}
	s.serial++
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("%s-uid-%d", r.kind.Kind, s.serial)))
	}
	if t := o.GetCreationTimestamp(); t.IsZero() {
		o.SetCreationTimestamp(now())
	}
	o.SetGeneration(1)
	setDefaults(o)
	return s.put(actor, r, nil, o), nil
}

func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// setDefaults sets what the API server sets in a new pod: the phase, the grace period, how long the pod stays on a node
// that is not ready (admission plugin DefaultTolerationSeconds), and in managedFields whether its creator has named the
// node.
func setDefaults(o Object) {
	pod, isPod := o.(*corev1.Pod)
	if !isPod {
		return
	}
	if pod.Status.Phase == "" {
		pod.Status.Phase = corev1.PodPending
	}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	if pod.Spec.NodeName != "" {
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{
			Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:nodeName":{}}}`),
		}}
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
		if !tolerates(pod.Spec.Tolerations, taint) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(int64(300)),
			})
		}
	}
}

// update changes an object, if there is one. A change without effect is no change.
func update[T Object](s *store, actor string, name types.NamespacedName, change func(T)) (found bool) {
	r := resourceFor[T](s)
	before := s.get(r.name, name)
	if before == nil {
		return false
	}
	after := before.DeepCopyObject().(T) //nolint:forcetypeassert // The table has one type.
	change(after)
	if !before.equals(after) {
		s.put(actor, r, before, after)
	}
	return true
}

// equals reports whether an object has the same encoding, which is faster to find than whether it is deeply equal.
func (e *entry) equals(o Object) bool {
	before, err := e.protobuf()
	if err != nil {
		return false
	}
	after, err := marshal(o)
	return err == nil && bytes.Equal(before, after)
}

// put replaces before by after, one of which may be nil, and reports the change.
func (s *store) put(actor string, r resource, before *entry, after Object) *entry {
	s.version++
	version := strconv.FormatInt(s.version, 10)
	c := &Change{At: time.Now(), Actor: actor, Resource: r.name, version: s.version, old: before}
	if before != nil {
		c.Old = before.Object
	}
	if after != nil {
		if before != nil && specChanged(before.Object, after) {
			after.SetGeneration(before.GetGeneration() + 1)
		}
		after.SetResourceVersion(version)
		c.New, c.new = after, &entry{Object: after, kind: r}
	} else {
		last := before.DeepCopyObject().(Object) //nolint:forcetypeassert // A copy has the same type.
		last.SetResourceVersion(version)
		c.last = &entry{Object: last, kind: r}
	}
	s.tables[r.name].change(c.old, c.new)
	s.index(c)
	s.history = append(s.history, c)
	for _, f := range s.onChange {
		f(c)
	}
	return c.new
}

// specChanged reports whether the generation of an object increases.
func specChanged(before, after Object) bool {
	switch old := before.(type) {
	case *policyv1.PodDisruptionBudget:
		spec := after.(*policyv1.PodDisruptionBudget).Spec //nolint:forcetypeassert // See replace.
		return !apiequality.Semantic.DeepEqual(old.Spec, spec)
	case *appsv1.Deployment:
		spec := after.(*appsv1.Deployment).Spec //nolint:forcetypeassert // See replace.
		return !apiequality.Semantic.DeepEqual(old.Spec, spec)
	}
	return false
}

// index updates the pods by node and by owner.
func (s *store) index(c *Change) {
	if c.Resource != "pods" {
		return
	}
	for _, e := range []*entry{c.old, c.new} {
		if e == nil {
			continue
		}
		pod := e.Object.(*corev1.Pod) //nolint:forcetypeassert // The resource has one type.
		if pod.Spec.NodeName != "" {
			in(s.byNode, pod.Spec.NodeName).change(e, c.new)
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			in(s.byOwner, owner.UID).change(e, c.new)
		}
	}
}

func in[K comparable](tables map[K]*table, key K) *table {
	if tables[key] == nil {
		tables[key] = &table{}
	}
	return tables[key]
}

// podsOn returns the pods that are bound to a node.
func (s *store) podsOn(node string) []*corev1.Pod { return all[*corev1.Pod](s.byNode[node]) }

// podsOf returns the pods that an object controls.
func (s *store) podsOf(owner types.UID) []*corev1.Pod { return all[*corev1.Pod](s.byOwner[owner]) }
