package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// errReset is the error of a connection that breaks.
var errReset = errors.New("read tcp: connection reset by peer")

// call is a request on its way through the server.
type call struct {
	Record
	object      types.NamespacedName
	resource    resource
	subresource string
	query       url.Values
	http        *http.Request
	body        []byte
	protobuf    bool // of the answer
	dryRun      bool
	denial      error // of a webhook
}

// transport is a client's connection.
type transport struct {
	server *Server
	client string
}

// Transport returns a transport for the requests of one client, whose name is that of the records.
func (s *Server) Transport(client string) http.RoundTripper { return transport{s, client} }

// RoundTrip serves a request: it takes its time, is decided in one moment, and its answer takes time again.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := newCall(r, t.client)
	if err != nil {
		return nil, err
	}
	latency := t.latency(c)
	arrives := latency / 2
	if c.IsEviction() {
		arrives = latency / 4 // the rest of this half is between the update of the budget and the deletion
	}
	if err := sleep(r.Context(), arrives); err != nil {
		return nil, err
	}
	if err := t.obstruct(r.Context(), c); err != nil {
		return nil, err
	}
	if c.IsEviction() {
		c.Canceled = sleep(r.Context(), latency/4) != nil
	}
	out, response := t.decide(c)
	if out.err != nil {
		return nil, out.err
	}
	if err := sleep(r.Context(), latency-latency/2+out.delay); err != nil {
		return nil, err
	}
	return response, nil
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		retry.Sleep(ctx, d)
	}
	return ctx.Err()
}

// latency returns how long a request takes. It depends on the request, so that the order in which goroutines of one
// moment send theirs does not matter.
func (t transport) latency(c *call) time.Duration {
	s := t.server
	if s.Latency == 0 {
		return 0
	}
	kind := fmt.Sprintln(c.Client, c.Verb, c.Resource, c.object)
	s.mu.Lock()
	s.requests[kind]++
	n := s.requests[kind]
	s.mu.Unlock()
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, s.seed, n, kind)
	return s.Latency/2 + time.Duration(h.Sum64()%uint64(s.Latency))
}

// newCall reads a request as the API server does: /api/VERSION or /apis/GROUP/VERSION, then perhaps
// namespaces/NAMESPACE, and then RESOURCE/NAME/SUBRESOURCE.
func newCall(r *http.Request, client string) (*call, error) {
	c := &call{http: r, query: r.URL.Query(), protobuf: accepts(r, runtime.ContentTypeProtobuf)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	parts = append(parts[2:], "", "", "", "", "")
	if parts[0] == "namespaces" {
		c.object.Namespace, parts = parts[1], parts[2:]
	}
	all := resources()
	i := slices.IndexFunc(all, func(known resource) bool {
		return known.name == parts[0] && known.kind.Group == group
	})
	if i < 0 {
		return c, errors.New("the server has no resource for " + r.URL.Path)
	}
	c.resource, c.object.Name, c.subresource = all[i], parts[1], parts[2]
	c.dryRun = c.query.Get("dryRun") != ""
	c.Record = Record{
		Client: client, Verb: c.verb(), Resource: strings.TrimSuffix(parts[0]+"/"+parts[2], "/"),
		Namespace: c.object.Namespace, Name: c.object.Name,
	}
	if r.Body != nil {
		var err error
		if c.body, err = io.ReadAll(r.Body); err != nil {
			return c, err
		}
	}
	return c, nil
}

func accepts(r *http.Request, format string) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), format)
}

func (c *call) verb() string {
	watches := c.query.Get("watch")
	switch {
	case c.http.Method == http.MethodGet && (watches == "true" || watches == "1"):
		return "watch"
	case c.http.Method == http.MethodGet && c.object.Name == "":
		return "list"
	}
	return map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	}[c.http.Method]
}

// outcome is how a request ends.
type outcome struct {
	err   error         // of the connection
	delay time.Duration // of the answer
}

// decide answers a request, in one moment.
func (t transport) decide(c *call) (outcome, *http.Response) {
	s := t.server
	s.mu.Lock()
	defer s.mu.Unlock()
	c.At = time.Now()
	var body []byte
	var err error
	var stream io.ReadCloser
	if err = s.faults.refuse(c); err == nil && c.Verb == "watch" {
		stream, err = s.watch(c)
	} else if err == nil {
		body, err = handler{s, c}.serve()
	}
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	return t.answer(c, body, stream, err)
}

// answer returns the answer to a request, and records it.
func (t transport) answer(c *call, body []byte, stream io.ReadCloser, err error) (outcome, *http.Response) {
	c.Code = http.StatusOK
	if c.Verb == "create" {
		c.Code = http.StatusCreated
	}
	header := http.Header{"Content-Type": {c.mediaType()}}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		refusal := status.Status()
		c.Code, c.Reason, c.Message = int(refusal.Code), refusal.Reason, refusal.Message
		if d := refusal.Details; d != nil && d.RetryAfterSeconds > 0 {
			header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
		}
		body, err = c.encode(&refusal)
	}
	if t.server.Audit != nil {
		t.server.Audit(c.Record)
	}
	if t.server.faults.loses(c) {
		return outcome{err: errReset}, nil
	}
	if stream == nil {
		stream = io.NopCloser(bytes.NewReader(body))
	} else {
		header.Set("Content-Type", c.mediaType()+";stream=watch")
	}
	return outcome{err: err}, &http.Response{
		StatusCode: c.Code, Status: http.StatusText(c.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: stream, Request: c.http,
	}
}

func (c *call) mediaType() string {
	if c.protobuf {
		return runtime.ContentTypeProtobuf
	}
	return runtime.ContentTypeJSON
}

// read decodes the body of a request.
func (c *call) read(into runtime.Object) error {
	if len(c.body) == 0 {
		return nil
	}
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.body, nil, into)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
