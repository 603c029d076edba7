package kube

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// watcher is one watch, and the body of its answer.
type watcher struct {
	server  *Server
	call    *call
	ctx     context.Context // of the request
	selects selection
	shown   time.Time     // when the last event that was sent is shown
	arrived chan struct{} // receives when there is something to read
	timers  []*timer
	version int64 // of the last event sent

	buffer []byte // what the client can read; the server's lock guards it, and ended
	ended  error
}

// watchers are all watches, by resource.
type watchers map[string][]*watcher

// watch answers a watch.
func (s *Server) watch(c *call) (io.ReadCloser, error) {
	selects, err := c.selector()
	if err != nil {
		return nil, err
	}
	w := &watcher{server: s, call: c, ctx: c.http.Context(), selects: selects, arrived: make(chan struct{}, 1)}
	if err := w.begin(); err != nil {
		return nil, err
	}
	if w.ended != nil {
		return w, nil
	}
	s.watches[c.resource.name] = append(s.watches[c.resource.name], w)
	if n, err := strconv.Atoi(c.query.Get("timeoutSeconds")); err == nil && n > 0 {
		w.timers = append(w.timers, s.clock.after(seconds(int64(n)), func() { w.end(io.EOF) }))
	}
	if s.Bookmarks > 0 && c.query.Get("allowWatchBookmarks") == "true" {
		w.remind()
	}
	return w, nil
}

// begin sends what the watch shows at once: all objects, if the request asks for them, or all changes since a resource
// version.
func (w *watcher) begin() error {
	query, s := w.call.query, w.server
	version, initial := query.Get("resourceVersion"), query.Get("sendInitialEvents") == "true"
	if initial || version == "" || version == "0" {
		w.sendAll(initial)
		return nil
	}
	from, err := strconv.ParseInt(version, 10, 64)
	switch {
	case err != nil:
		return apierrors.NewBadRequest(err.Error())
	case from < s.oldest:
		return w.expired("too old resource version: " + version + " (" + strconv.FormatInt(s.oldest, 10) + ")")
	}
	for _, c := range s.history[min(from, s.version):] {
		if c.Resource == w.call.resource.name {
			w.show(c)
		}
	}
	return nil
}

// sendAll sends all objects, and the bookmark of their end if the request asks for it.
func (w *watcher) sendAll(bookmark bool) {
	for _, e := range *(handler{w.server, w.call}).source(w.selects) {
		if w.selects.matches(e.Object) {
			w.send(watch.Added, e)
		}
	}
	if w.version = w.server.version; bookmark {
		w.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
}

// expired ends the watch with an error, which is an event (newErrWatcher of the API server's storage/cacher).
func (w *watcher) expired(why string) error {
	status := apierrors.NewResourceExpired(why).Status()
	data, err := w.call.encode(&status)
	if err != nil {
		return err
	}
	frame, err := w.call.frameOf(watch.Error, data)
	w.deliver(frame)
	w.end(io.EOF)
	return err
}

// show shows a change: an object that begins to match is added, and one that ceases to match is deleted.
func (w *watcher) show(c *Change) {
	was := c.old != nil && w.selects.matches(c.Old)
	is := c.new != nil && w.selects.matches(c.New)
	w.version = c.version
	switch {
	case was && is:
		w.send(watch.Modified, c.new)
	case is:
		w.send(watch.Added, c.new)
	case was && c.new == nil:
		w.send(watch.Deleted, c.last)
	case was: // It is shown as it was, with the version of the change.
		last := c.Old.DeepCopyObject().(Object) //nolint:forcetypeassert // A copy has the same type.
		last.SetResourceVersion(strconv.FormatInt(c.version, 10))
		w.send(watch.Deleted, &entry{Object: last, kind: c.old.kind})
	}
}

// show shows a change to all watches.
func (all watchers) show(c *Change) {
	for _, w := range all[c.Resource] {
		w.show(c)
	}
}

// bookmark sends the resource version up to which the watch has shown everything.
func (w *watcher) bookmark(annotations map[string]string) {
	o, err := scheme.Scheme.New(w.call.resource.kind)
	if err != nil {
		return
	}
	mark := o.(Object) //nolint:forcetypeassert // All resources are objects.
	mark.SetResourceVersion(strconv.FormatInt(w.version, 10))
	mark.SetAnnotations(annotations)
	w.send(watch.Bookmark, &entry{Object: mark, kind: w.call.resource})
}

// remind sends a bookmark now and then.
func (w *watcher) remind() {
	w.timers = append(w.timers[:min(1, len(w.timers))], w.server.clock.after(w.server.Bookmarks, func() {
		w.version = w.server.version
		w.bookmark(nil)
		w.remind()
	}))
}

// send sends an event. The client can read it when the watch's lag has passed, after all earlier ones.
func (w *watcher) send(event watch.EventType, e *entry) {
	frame, err := w.call.frame(event, e)
	if err != nil {
		w.end(err)
		return
	}
	if due := time.Now().Add(w.server.faults.lag(w.call)); due.After(w.shown) {
		w.shown = due
	}
	if !w.shown.After(time.Now()) {
		w.deliver(frame)
		return
	}
	w.server.clock.at(w.shown, func() { w.deliver(frame) })
}

func (w *watcher) deliver(frame []byte) {
	if w.ended == nil {
		w.buffer = append(w.buffer, frame...)
		w.wakeUp()
	}
}

func (w *watcher) wakeUp() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// end ends the watch. The client can still read what has arrived.
func (w *watcher) end(why error) {
	if w.ended != nil {
		return
	}
	w.ended = why
	s := w.server
	for _, t := range w.timers {
		s.clock.cancel(t)
	}
	s.watches[w.call.resource.name] = slices.DeleteFunc(s.watches[w.call.resource.name], func(other *watcher) bool {
		return other == w
	})
	w.wakeUp()
}

// Read returns what has arrived, and waits until there is something.
func (w *watcher) Read(p []byte) (int, error) {
	for {
		w.server.mu.Lock()
		n := copy(p, w.buffer)
		if w.buffer = w.buffer[n:]; len(w.buffer) == 0 {
			w.buffer = nil
		}
		ended := w.ended
		w.server.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if ended != nil {
			return 0, ended
		}
		select {
		case <-w.arrived:
		case <-w.ctx.Done():
			_ = w.Close()
			return 0, w.ctx.Err()
		}
	}
}

var errClosed = errors.New("http: read on closed response body")

// Close ends the watch.
func (w *watcher) Close() error {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.end(errClosed)
	return nil
}

// BreakWatches cuts the connections of all watches, or of those of some clients. Their clients can watch on from where
// they were.
func (s *Server) BreakWatches(clients ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches.cut(func(c *call) bool { return len(clients) == 0 || slices.Contains(clients, c.Client) })
}

func (all watchers) cut(selects func(*call) bool) {
	for _, r := range resources() {
		for _, w := range slices.Clone(all[r.name]) {
			if selects(w.call) {
				w.end(errReset)
			}
		}
	}
}

// Expire forgets all changes: a watch from an earlier resource version must list again.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = s.version
}

// asOf returns the objects of a resource as they were so long ago, and the resource version of that time.
func (s *store) asOf(resource string, ago time.Duration) (*table, int64) {
	then := slices.Clone(*s.tables[resource])
	since := time.Now().Add(-ago)
	version := s.version
	for ; version > 0 && s.history[version-1].At.After(since); version-- {
		if c := s.history[version-1]; c.Resource == resource && c.old != nil {
			then.change(c.new, c.old)
		} else if c.Resource == resource {
			then.change(c.new, nil)
		}
	}
	return &then, version
}
