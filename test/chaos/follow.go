package main

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// again is how soon a watch that ended is begun again. An informer of client-go would wait for up to half a
// minute when the API server has been away, and would miss what comes and goes meanwhile.
const again = 100 * time.Millisecond

// object is anything of the API.
type object interface {
	metav1.Object
	runtime.Object
}

// follower tells changed of each object that there is and of each change, one at a time.
type follower[T object] struct {
	source  cache.ListerWatcherWithContext
	changed func(o T, gone bool)
	known   map[string]T // By UID.
}

// follow lists the objects, and goes on to watch them until ctx ends, through every absence of the API
// server.
func follow[T object](
	ctx context.Context, client rest.Interface, resource string, changed func(o T, gone bool),
) error {
	source := cache.NewListWatchFromClient(client, resource, "", fields.Everything())
	f := &follower[T]{
		source: cache.ToListerWatcherWithContext(source), changed: changed, known: map[string]T{},
	}
	version, err := f.list(ctx)
	if err != nil {
		return err
	}
	go func() {
		for pause(ctx, again) {
			if version == "" {
				version, _ = f.list(ctx)
				continue
			}
			version = f.watch(ctx, version)
		}
	}()
	return nil
}

// list tells of all that there is, and of the end of what is no more. It returns the version to watch from.
func (f *follower[T]) list(ctx context.Context) (version string, err error) {
	list, err := f.source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	before := f.known
	f.known = map[string]T{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		one, ok := o.(T)
		if !ok {
			return errors.New("a list of something else")
		}
		delete(before, string(one.GetUID()))
		f.tell(one, false)
		return nil
	})
	for _, one := range before {
		f.changed(one, true)
	}
	accessor, _ := meta.ListAccessor(list)
	return accessor.GetResourceVersion(), err
}

// watch tells of changes until the watch ends. It returns the version to go on from; none if all must be
// listed again.
func (f *follower[T]) watch(ctx context.Context, version string) string {
	w, err := f.source.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTooManyRequests(err) {
			return ""
		}
		return version
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(T)
		if !ok || e.Type == watch.Error {
			return ""
		}
		f.tell(o, e.Type == watch.Deleted)
		version = o.GetResourceVersion()
	}
	return version
}

func (f *follower[T]) tell(o T, gone bool) {
	if gone {
		delete(f.known, string(o.GetUID()))
	} else {
		f.known[string(o.GetUID())] = o
	}
	f.changed(o, gone)
}
