package kube

import (
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	corev1 "k8s.io/api/core/v1"
)

// decide answers a request other than a watch, in one moment.
func (s *Server) decide(c call) (runtime.Object, error) {
	if s.Refuse != nil {
		if err := s.Refuse(c.Request); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.subresource == "eviction":
		return s.evict(c)
	case c.Verb == "list":
		return s.list(c)
	case c.Verb == "create":
		return s.createFrom(c)
	}
	return s.decideOn(c)
}

// decideOn answers a request for one object that exists. It needs mu.
func (s *Server) decideOn(c call) (runtime.Object, error) {
	before, found := s.objects[c.resource.name][c.object()]
	if !found {
		return nil, apierrors.NewNotFound(c.resource.group(), c.Name)
	}
	switch c.Verb {
	case "get":
		return before, nil
	case "update":
		return s.update(c, before)
	case "patch":
		return s.patch(c, before)
	}
	options := &metav1.DeleteOptions{}
	if err := c.read(options); err != nil {
		return nil, err
	}
	return s.delete(c.resource, before, *options)
}

func (c call) object() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// selector returns what the query of a list or a watch selects.
func (c call) selector() (func(Object) bool, error) {
	query := c.http.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(o Object) bool {
		return (c.Namespace == "" || o.GetNamespace() == c.Namespace) && byLabel.Matches(labels.Set(o.GetLabels())) &&
			byField.Matches(fieldsOf(o))
	}, nil
}

// fieldsOf returns the fields that a selector can name.
func fieldsOf(o Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, ok := o.(*corev1.Pod); ok {
		set["spec.nodeName"], set["status.phase"] = pod.Spec.NodeName, string(pod.Status.Phase)
	}
	return set
}

// list answers a list. It is always up to date, which the API server does not promise for resource version 0; only
// its version is then as old as a watch from it may begin. It needs mu.
func (s *Server) list(c call) (runtime.Object, error) {
	matches, err := c.selector()
	if err != nil {
		return nil, err
	}
	out, err := scheme.Scheme.New(c.resource.kind.GroupVersion().WithKind(c.resource.kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	var items []runtime.Object
	for _, o := range sorted(s.objects[c.resource.name]) {
		if matches(o) {
			items = append(items, o)
		}
	}
	accessor, err := meta.ListAccessor(out)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strconv.FormatInt(s.version, 10))
	items, next := page(items, c.http.URL.Query().Get("continue"), c.http.URL.Query().Get("limit"))
	accessor.SetContinue(next)
	return out, meta.SetList(out, items)
}

// page returns a page of a list, and where the next one begins. The token is the number of the first item.
func page(items []runtime.Object, token, limit string) (page []runtime.Object, next string) {
	from, _ := strconv.Atoi(token)
	most, _ := strconv.Atoi(limit)
	items = items[min(from, len(items)):]
	if most == 0 || len(items) <= most {
		return items, ""
	}
	return items[:most], strconv.Itoa(from + most)
}

// createFrom creates the object in the body. It needs mu.
func (s *Server) createFrom(c call) (runtime.Object, error) {
	o, err := c.decode()
	if err != nil {
		return nil, err
	}
	o.SetNamespace(c.Namespace)
	return s.create(c.resource, o)
}

func (c call) decode() (Object, error) {
	out, err := scheme.Scheme.New(c.resource.kind)
	if err != nil {
		return nil, err
	}
	return out.(Object), c.read(out) //nolint:forcetypeassert // All resources are objects.
}

// update replaces an object by that in the body, if its resource version is the stored one. It needs mu.
func (s *Server) update(c call, before Object) (runtime.Object, error) {
	after, err := c.decode()
	if err != nil {
		return nil, err
	}
	return s.replace(c, before, after)
}

// patch changes an object by a merge patch or a strategic merge patch. It needs mu.
func (s *Server) patch(c call, before Object) (runtime.Object, error) {
	document, err := runtime.Encode(scheme.Codecs.LegacyCodec(c.resource.kind.GroupVersion()), before)
	if err != nil {
		return nil, err
	}
	switch t := types.PatchType(c.http.Header.Get("Content-Type")); t {
	case types.MergePatchType:
		document, err = jsonpatch.MergePatch(document, c.body)
	case types.StrategicMergePatchType:
		document, err = strategicpatch.StrategicMergePatch(document, c.body, before)
	default:
		err = apierrors.NewBadRequest("unsupported patch type " + string(t))
	}
	if err != nil {
		return nil, err
	}
	after, err := scheme.Scheme.New(c.resource.kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(document, after); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.replace(c, before, after.(Object)) //nolint:forcetypeassert // All resources are objects.
}

// replace stores an object that a client has changed, if it has changed the newest version of the same object. It
// needs mu.
func (s *Server) replace(c call, before, after Object) (runtime.Object, error) {
	after.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as in what is stored
	switch {
	case after.GetUID() != before.GetUID():
		return nil, conflict(c.resource, before.GetName(), "the UID is "+string(before.GetUID()))
	case after.GetResourceVersion() != "" && after.GetResourceVersion() != before.GetResourceVersion():
		return nil, conflict(c.resource, before.GetName(), "the object has been modified")
	case apiequality.Semantic.DeepEqual(before, after):
		return before, nil
	}
	s.put(c.resource, before, after)
	return after, nil
}

func conflict(r resource, name, why string) error {
	return apierrors.NewConflict(r.group(), name, reason(why))
}

// reason is the cause of a refusal, in the words of Kubernetes.
type reason string

func (r reason) Error() string { return string(r) }
