package kube

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
)

// stream is one watch.
type stream struct {
	server  *Server
	call    call
	matches func(Object) bool
	next    int // index of the first change that it has not shown
	encoder *restwatch.Encoder
}

// watch answers a watch: the response has what the server sends from now on.
func (s *Server) watch(ctx context.Context, c call) (*http.Response, error) {
	matches, err := c.selector()
	if err != nil {
		return c.answer(nil, err)
	}
	if s.Refuse != nil {
		if err := s.Refuse(c.Request); err != nil {
			return c.answer(nil, err)
		}
	}
	out, in := io.Pipe()
	frames := streaming.NewEncoder(c.info.StreamSerializer.NewFrameWriter(in), c.info.StreamSerializer.Serializer)
	w := &stream{
		server: s, call: c, matches: matches,
		encoder: restwatch.NewEncoder(frames, c.encoder(c.resource.kind.GroupVersion())),
	}
	initial, err := w.begin()
	if err != nil {
		return c.answer(nil, err)
	}
	ctx, cancel := w.deadline(ctx)
	context.AfterFunc(ctx, func() { _ = in.Close() }) // also ends a write that nobody reads
	go func() {
		defer cancel()
		w.run(ctx, initial)
	}()
	return c.response(http.StatusOK, c.info.MediaType+";stream=watch", out), nil
}

// deadline returns the context of the watch, which ends with the request, or after the timeout that it asks for.
func (w *stream) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	n, err := strconv.Atoi(w.call.http.URL.Query().Get("timeoutSeconds"))
	if err != nil || n == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, seconds(int64(n)))
}

// begin finds where the watch begins, and returns the events that it shows at once: those of all objects, if the
// request asks for them.
func (w *stream) begin() ([]watch.Event, error) {
	query := w.call.http.URL.Query()
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	version := query.Get("resourceVersion")
	if query.Get("sendInitialEvents") == "true" || version == "" || version == "0" {
		w.next = len(s.history)
		return w.initialEvents(query.Get("sendInitialEvents") == "true")
	}
	from, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if from < s.oldest {
		return nil, apierrors.NewResourceExpired("too old resource version: " + version)
	}
	for w.next < len(s.history) && s.history[w.next].version <= from {
		w.next++
	}
	return nil, nil
}

// initialEvents returns an event for each object, and the bookmark that ends them. It needs mu.
func (w *stream) initialEvents(bookmark bool) ([]watch.Event, error) {
	var out []watch.Event
	for _, o := range sorted(w.server.objects[w.call.resource.name]) {
		if w.matches(o) {
			out = append(out, watch.Event{Type: watch.Added, Object: o})
		}
	}
	if !bookmark {
		return out, nil
	}
	end, err := scheme.Scheme.New(w.call.resource.kind)
	if err != nil {
		return nil, err
	}
	o, err := meta.Accessor(end)
	if err != nil {
		return nil, err
	}
	o.SetResourceVersion(strconv.FormatInt(w.server.version, 10))
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return append(out, watch.Event{Type: watch.Bookmark, Object: end}), nil
}

// run sends events until ctx ends or the watch is broken.
func (w *stream) run(ctx context.Context, events []watch.Event) {
	broken := w.server.brokenWatches()
	for {
		for _, e := range events {
			if err := w.encoder.Encode(&e); err != nil {
				return
			}
		}
		c, changed := w.take()
		if c == nil {
			select {
			case <-changed:
			case <-broken:
				return
			case <-ctx.Done():
				return
			}
			events = nil
			continue
		}
		if err := w.wait(ctx, *c, broken); err != nil {
			return
		}
		events = nil
		if e, shown := c.event(w.matches); shown {
			events = []watch.Event{e}
		}
	}
}

// take returns the next change of the resource, or nil and a channel that is closed at the next change.
func (w *stream) take() (*Change, <-chan struct{}) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for w.next < len(w.server.history) {
		c := w.server.history[w.next]
		w.next++
		if c.Resource == w.call.resource.name {
			return &c, nil
		}
	}
	return nil, w.server.changed
}

// wait waits until the watch shows a change, as long as the server lags.
func (w *stream) wait(ctx context.Context, c Change, broken <-chan struct{}) error {
	if w.server.Lag == nil {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(c.At.Add(w.server.Lag(c))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-broken:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}
