package harness

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// rewatchDelay is the time between the end of a watch and the next one. An informer of client-go waits for
// up to half a minute after an outage of the API server, and misses what appears and disappears during that
// time.
const rewatchDelay = 100 * time.Millisecond

// Object is any object of the Kubernetes API.
type Object interface {
	metav1.Object
	runtime.Object
}

// Source is what Follow watches. An empty Namespace is all namespaces, empty Labels select all objects.
type Source struct {
	Client    rest.Interface
	Resource  string
	Namespace string
	Labels    string

	// Missed is called, if it is not nil, when objects may have appeared and disappeared unseen: after a list that
	// follows a watch which ended at the first time, and could not go on from there.
	Missed func(from, to time.Time)
}

// Follow calls changed for each object that exists and for each change of one, one at a time, until ctx
// ends. It returns when all objects that exist have been listed. Watches go on through outages of the API
// server. changed may clear fields that nobody reads, to save memory.
func Follow[T Object](ctx context.Context, s Source, changed func(o T, deleted bool)) error {
	labels := func(o *metav1.ListOptions) { o.LabelSelector = s.Labels }
	source := cache.NewFilteredListWatchFromClient(s.Client, s.Resource, s.Namespace, labels)
	f := &follower[T]{
		source: cache.ToListerWatcherWithContext(source), changed: changed, known: map[string]T{},
	}
	version, err := f.list(ctx)
	if err != nil {
		return err
	}
	go func() {
		watched := time.Now() // when the last watch ended
		for retry.Sleep(ctx, rewatchDelay) {
			if version != "" {
				var open bool
				if version, open = f.watch(ctx, version); open {
					watched = time.Now()
				}
				continue
			}
			next, err := f.list(ctx)
			if version = next; err == nil && s.Missed != nil {
				s.Missed(watched, time.Now())
			}
		}
	}()
	return nil
}

type follower[T Object] struct {
	source  cache.ListerWatcherWithContext
	changed func(o T, deleted bool)
	known   map[string]T // By UID.
}

// list reports all objects, and those that no longer exist as deleted. It returns the version to watch from.
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
			return errors.New("the list holds objects of another type")
		}
		delete(before, string(one.GetUID()))
		f.report(one, false)
		return nil
	})
	for _, one := range before {
		f.changed(one, true)
	}
	accessor, _ := meta.ListAccessor(list)
	return accessor.GetResourceVersion(), err
}

// watch reports changes until the watch ends. It returns the version to watch from, or "" if a list is
// needed, and whether the watch has begun.
func (f *follower[T]) watch(ctx context.Context, version string) (next string, begun bool) {
	w, err := f.source.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTooManyRequests(err) {
			return "", false
		}
		return version, false
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(T)
		if !ok || e.Type == watch.Error {
			return "", true
		}
		version = o.GetResourceVersion()
		f.report(o, e.Type == watch.Deleted)
	}
	return version, true
}

func (f *follower[T]) report(o T, deleted bool) {
	if deleted {
		delete(f.known, string(o.GetUID()))
	} else {
		f.known[string(o.GetUID())] = o
	}
	f.changed(o, deleted)
}
