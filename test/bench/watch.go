package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// object is anything of the API.
type object interface {
	metav1.Object
	runtime.Object
}

// source is what is watched.
type source struct {
	rest      rest.Interface
	resource  string
	namespace string
	labels    string
}

// follow tells changed of each object that there is and of each change, one at a time, until ctx ends. It
// returns when those that there were have been told. shrink takes off what nobody here reads.
func follow[T object](
	ctx context.Context, s source, example T, shrink func(T), changed func(o T, gone bool),
) error {
	list := cache.NewFilteredListWatchFromClient(s.rest, s.resource, s.namespace, func(o *metav1.ListOptions) {
		o.LabelSelector = s.labels
	})
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: list, ObjectType: example, Handler: handler(changed),
		Transform: func(o any) (any, error) {
			if o, ok := o.(T); ok {
				o.SetManagedFields(nil)
				shrink(o)
			}
			return o, nil
		},
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("watch %s: %w", s.resource, context.Cause(ctx))
	}
	return nil
}

// handler tells of an object that has come back under the same name as of two, which it is.
func handler[T object](changed func(o T, gone bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { changed(o.(T), false) },
		UpdateFunc: func(before, after any) {
			if before, after := before.(T), after.(T); before.GetUID() != after.GetUID() {
				changed(before, true)
			}
			changed(after.(T), false)
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			changed(o.(T), true)
		},
	}
}

// quickClient returns a client without a limit on requests that spends as little as it can on reading.
func quickClient(config *rest.Config) (*kubernetes.Clientset, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
