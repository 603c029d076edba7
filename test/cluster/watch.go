package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// selection is what a wait looks at.
type selection struct {
	rest      rest.Interface
	resource  string
	namespace string
	labels    labels.Selector // All if nil.
	field     fields.Selector // All if nil.
}

// until watches the objects of s and returns when done is true of all of them together. It outlives
// an API server that is stopped meanwhile.
func until[T runtime.Object](ctx context.Context, s selection, example T, done func([]T) bool) error {
	lw := cache.NewFilteredListWatchFromClient(s.rest, s.resource, s.namespace, func(o *metav1.ListOptions) {
		if s.labels != nil {
			o.LabelSelector = s.labels.String()
		}
		if s.field != nil {
			o.FieldSelector = s.field.String()
		}
	})
	var store cache.Store
	check := func() bool {
		objects := make([]T, 0, len(store.List()))
		for _, o := range store.List() {
			objects = append(objects, o.(T))
		}
		return done(objects)
	}
	_, err := watchtools.UntilWithSync(ctx, lw, example,
		func(s cache.Store) (bool, error) { store = s; return check(), nil },
		func(watch.Event) (bool, error) { return check(), nil })
	return err
}

// waitServiceAccount returns when the default ServiceAccount of a namespace is there, before which no
// pod is admitted.
func waitServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	s := selection{rest: client.CoreV1().RESTClient(), resource: "serviceaccounts", namespace: namespace}
	err := until(ctx, s, &corev1.ServiceAccount{}, func(accounts []*corev1.ServiceAccount) bool {
		for _, a := range accounts {
			if a.Name == "default" {
				return true
			}
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("wait for the ServiceAccount of namespace %s: %w", namespace, err)
	}
	return nil
}
