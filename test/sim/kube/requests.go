package kube

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// handler answers one request.
type handler struct {
	s *Server
	*call
}

// serve answers a request other than a watch.
func (h handler) serve() ([]byte, error) {
	switch {
	case h.subresource == "eviction":
		return h.evict()
	case h.Verb == "list":
		return h.list()
	case h.Verb == "create":
		o, err := h.decode()
		if err != nil {
			return nil, err
		}
		o.SetNamespace(h.object.Namespace)
		e, err := h.s.create(h.Client, h.resource, o)
		return h.result(e, err)
	}
	return h.serveOne()
}

// serveOne answers a request for one object that exists.
func (h handler) serveOne() ([]byte, error) {
	before := h.s.get(h.resource.name, h.object)
	if before == nil {
		return nil, apierrors.NewNotFound(h.resource.group(), h.object.Name)
	}
	if h.IsWrite() {
		h.Object = before.Object
	}
	switch h.Verb {
	case "get":
		return h.encodeEntry(before)
	case "update":
		after, err := h.decode()
		if err != nil {
			return nil, err
		}
		if uid := after.GetUID(); uid != "" && uid != before.GetUID() {
			return nil, conflict(h.resource.group(), h.object.Name, "Precondition failed: UID in precondition: "+
				string(uid)+", UID in object meta: "+string(before.GetUID()))
		}
		after.SetUID(before.GetUID())
		return h.result(h.replace(before, after))
	case "patch":
		return h.result(h.patch(before))
	}
	return h.serveDelete(before)
}

func (h handler) serveDelete(before *entry) ([]byte, error) {
	options := metav1.DeleteOptions{}
	if err := h.read(&options); err != nil {
		return nil, err
	}
	h.describe(options)
	after, err := h.s.delete(h.Client, before, options)
	if _, isPod := before.Object.(*corev1.Pod); err != nil || !isPod {
		return h.succeed(err)
	}
	return h.encodeEntry(after)
}

// describe records a deletion of a pod.
func (h handler) describe(o metav1.DeleteOptions) {
	pod, isPod := h.Object.(*corev1.Pod)
	h.Grace, h.DryRun = o.GracePeriodSeconds, h.dryRun || len(o.DryRun) > 0
	if p := o.Preconditions; p != nil && p.UID != nil {
		h.UID = string(*p.UID)
	}
	if isPod {
		h.Budgets = h.s.budgetsOf(pod)
	}
}

func (c *call) result(e *entry, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return c.encodeEntry(e)
}

// succeed returns the status of a success.
func (c *call) succeed(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	code := int32(http.StatusOK)
	if c.Verb == "create" {
		code = http.StatusCreated
	}
	return c.encode(&metav1.Status{Status: metav1.StatusSuccess, Code: code})
}

// list answers a list, which is up to date, unless resource version 0 asks for what the server's cache has. Pages are
// of the latest version, and not, as those of the API server, of the version of the first page.
func (h handler) list() ([]byte, error) {
	selects, err := h.selector()
	if err != nil {
		return nil, err
	}
	objects, version := h.source(selects), h.s.version
	if lag := h.s.faults.lag(h.call); h.query.Get("resourceVersion") == "0" && lag > 0 {
		objects, version = h.s.asOf(h.resource.name, lag)
	}
	var items []*entry
	for _, e := range *objects {
		if selects.matches(e.Object) {
			items = append(items, e)
		}
	}
	items, next := page(items, h.query.Get("continue"), h.query.Get("limit"))
	return h.encodeList(metav1.ListMeta{ResourceVersion: strconv.FormatInt(version, 10), Continue: next}, items)
}

// source returns the table with all that a request can select.
func (h handler) source(selects selection) *table {
	if selects.node != "" {
		return in(h.s.byNode, selects.node)
	}
	return h.s.tables[h.resource.name]
}

// page returns a page of a list, and where the next one begins: the token is the name of its last object.
func page(items []*entry, token, limit string) (page []*entry, next string) {
	if token != "" {
		last := types.NamespacedName{}
		_ = json.Unmarshal([]byte(token), &last)
		i := slices.IndexFunc(items, func(e *entry) bool {
			return cmp.Or(cmp.Compare(e.GetNamespace(), last.Namespace), cmp.Compare(e.GetName(), last.Name)) > 0
		})
		if items = items[max(i, 0):]; i < 0 {
			items = nil
		}
	}
	most, _ := strconv.Atoi(limit)
	if most == 0 || len(items) <= most {
		return items, ""
	}
	name, _ := json.Marshal(nameOf(items[most-1]))
	return items[:most], string(name)
}

func (c *call) decode() (Object, error) {
	out, err := scheme.Scheme.New(c.resource.kind)
	if err != nil {
		return nil, err
	}
	err = c.read(out)
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out.(Object), err //nolint:forcetypeassert // All resources are objects.
}

// patch changes an object by a JSON patch, a merge patch or a strategic merge patch.
func (h handler) patch(before *entry) (*entry, error) {
	h.Patch = string(h.body)
	document, err := before.document()
	if err != nil {
		return nil, err
	}
	switch t := types.PatchType(h.http.Header.Get("Content-Type")); t {
	case types.MergePatchType:
		document, err = jsonpatch.MergePatch(document, h.body)
	case types.StrategicMergePatchType:
		document, err = strategicpatch.StrategicMergePatch(document, h.body, before.Object)
	default:
		err = reason("unsupported patch type " + string(t))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	changed := &call{resource: h.resource, body: document}
	after, err := changed.decode()
	if err != nil {
		return nil, err
	}
	if after.GetUID() != before.GetUID() {
		immutable := field.Invalid(field.NewPath("metadata", "uid"), after.GetUID(), "field is immutable")
		return nil, apierrors.NewInvalid(h.resource.kind.GroupKind(), before.GetName(), field.ErrorList{
			immutable, immutable, // The API server says it twice.
		})
	}
	return h.replace(before, after)
}

// replace stores an object that a client has changed, if it has changed the newest version of it.
func (h handler) replace(before *entry, after Object) (*entry, error) {
	version := after.GetResourceVersion()
	if version != "" && version != before.GetResourceVersion() || version != "" && h.s.faults.conflicts(h.call) {
		return nil, conflict(h.resource.group(), before.GetName(),
			"the object has been modified; please apply your changes to the latest version and try again")
	}
	keep(h.subresource, before.Object, after)
	after.SetResourceVersion(before.GetResourceVersion())
	if h.dryRun || before.equals(after) {
		return before, nil
	}
	return h.s.put(h.Client, h.resource, before, after), nil
}

// keep restores what a request cannot change: one for the status cannot change the rest, and another not the status.
func keep(subresource string, before, after Object) {
	switch after := after.(type) {
	case *corev1.Node:
		before := before.(*corev1.Node) //nolint:forcetypeassert // The type is the same.
		if subresource == "status" {
			after.Spec = before.Spec
		} else {
			after.Status = before.Status
		}
	case *policyv1.PodDisruptionBudget:
		before := before.(*policyv1.PodDisruptionBudget) //nolint:forcetypeassert // The type is the same.
		if subresource == "status" {
			after.Spec = before.Spec
		} else {
			after.Status = before.Status
		}
	}
}

func conflict(r schema.GroupResource, name, why string) error {
	return apierrors.NewConflict(r, name, reason(why))
}

// reason is the cause of a refusal, in the words of Kubernetes.
type reason string

func (r reason) Error() string { return string(r) }
