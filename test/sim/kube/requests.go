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
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// serve answers a request other than a watch.
func (s *Server) serve(c *call) ([]byte, error) {
	switch {
	case c.subresource == "eviction":
		return s.evict(c)
	case c.Verb == "list":
		return s.list(c)
	case c.Verb == "create":
		o, err := c.decode()
		if err != nil {
			return nil, err
		}
		o.SetNamespace(c.object.Namespace)
		e, err := s.create(c.Client, c.resource, o)
		return c.result(e, err)
	}
	return s.serveOne(c)
}

// serveOne answers a request for one object that exists.
func (s *Server) serveOne(c *call) ([]byte, error) {
	before := s.get(c.resource.name, c.object)
	if before == nil {
		return nil, apierrors.NewNotFound(c.resource.group(), c.object.Name)
	}
	if c.IsWrite() {
		c.Record.Object = before.Object
	}
	switch c.Verb {
	case "get":
		return c.encodeEntry(before)
	case "update":
		after, err := c.decode()
		if err != nil {
			return nil, err
		}
		if uid := after.GetUID(); uid != "" && uid != before.GetUID() {
			return nil, conflict(c.resource.group(), c.object.Name, "Precondition failed: UID in precondition: "+
				string(uid)+", UID in object meta: "+string(before.GetUID()))
		}
		after.SetUID(before.GetUID())
		return c.result(s.replace(c, before, after))
	case "patch":
		return c.result(s.patch(c, before))
	}
	return s.serveDelete(c, before)
}

func (s *Server) serveDelete(c *call, before *entry) ([]byte, error) {
	options := metav1.DeleteOptions{}
	if err := c.read(&options); err != nil {
		return nil, err
	}
	s.describe(c, options)
	after, err := s.delete(c.Client, before, options)
	if err != nil || after == nil {
		return c.succeed(err)
	}
	return c.encodeEntry(after)
}

// describe records a deletion of a pod.
func (s *Server) describe(c *call, o metav1.DeleteOptions) {
	pod, isPod := c.Record.Object.(*corev1.Pod)
	c.Grace, c.DryRun = o.GracePeriodSeconds, c.dryRun || len(o.DryRun) > 0
	if p := o.Preconditions; p != nil && p.UID != nil {
		c.UID = string(*p.UID)
	}
	if isPod {
		c.Budgets = s.budgetsOf(pod)
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
func (s *Server) list(c *call) ([]byte, error) {
	selects, err := c.selector()
	if err != nil {
		return nil, err
	}
	objects, version := s.source(c, selects), s.version
	if lag := s.lag(c); c.query.Get("resourceVersion") == "0" && lag > 0 {
		objects, version = s.asOf(c.resource.name, lag)
	}
	var items []*entry
	for _, e := range *objects {
		if selects.matches(e.Object) {
			items = append(items, e)
		}
	}
	items, next := page(items, c.query.Get("continue"), c.query.Get("limit"))
	return c.encodeList(metav1.ListMeta{ResourceVersion: strconv.FormatInt(version, 10), Continue: next}, items)
}

// source returns the table with all that a request can select.
func (s *Server) source(c *call, selects selection) *table {
	if selects.node != "" {
		return in(s.byNode, selects.node)
	}
	return s.tables[c.resource.name]
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
func (s *Server) patch(c *call, before *entry) (*entry, error) {
	c.Patch = string(c.body)
	document, err := before.document()
	if err != nil {
		return nil, err
	}
	switch t := types.PatchType(c.http.Header.Get("Content-Type")); t {
	case types.MergePatchType:
		document, err = jsonpatch.MergePatch(document, c.body)
	case types.StrategicMergePatchType:
		document, err = strategicpatch.StrategicMergePatch(document, c.body, before.Object)
	default:
		err = apierrors.NewBadRequest("unsupported patch type " + string(t))
	}
	if err != nil {
		return nil, err
	}
	changed := &call{resource: c.resource, body: document}
	after, err := changed.decode()
	if err != nil {
		return nil, err
	}
	if after.GetUID() != before.GetUID() {
		return nil, apierrors.NewInvalid(c.resource.kind.GroupKind(), before.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), after.GetUID(), "field is immutable"),
		})
	}
	return s.replace(c, before, after)
}

// replace stores an object that a client has changed, if it has changed the newest version of it.
func (s *Server) replace(c *call, before *entry, after Object) (*entry, error) {
	version := after.GetResourceVersion()
	if version != "" && version != before.GetResourceVersion() || version != "" && s.conflicts(c) {
		return nil, conflict(c.resource.group(), before.GetName(),
			"the object has been modified; please apply your changes to the latest version and try again")
	}
	keep(c.subresource, before.Object, after)
	after.SetResourceVersion(before.GetResourceVersion())
	if c.dryRun || apiequality.Semantic.DeepEqual(before.Object, after) {
		return before, nil
	}
	return s.put(c.Client, c.resource, before, after), nil
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
