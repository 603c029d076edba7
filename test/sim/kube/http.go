package kube

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// errLost is the error of a request whose answer is lost.
var errLost = errors.New("connection reset by peer")

// call is a request on its way through the server.
type call struct {
	Request
	http *http.Request
	body []byte
	info runtime.SerializerInfo // of the answer
}

// RoundTrip serves a request: it takes its time, is decided in one moment, and its answer takes time again.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := newCall(r)
	if err != nil {
		return nil, err
	}
	var before, after time.Duration
	if s.Delay != nil {
		before, after = s.Delay(c.Request)
	}
	if err := sleep(r.Context(), before); err != nil {
		return nil, err
	}
	if c.Verb == "watch" {
		return s.watch(r.Context(), c)
	}
	out, err := s.decide(c)
	if err := sleep(r.Context(), after); err != nil {
		return nil, err
	}
	if s.Lose != nil && s.Lose(c.Request) {
		return nil, errLost
	}
	return c.answer(out, err)
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		retry.Sleep(ctx, d)
	}
	return ctx.Err()
}

// newCall reads a request as the API server does: /api/VERSION or /apis/GROUP/VERSION, then perhaps
// namespaces/NAMESPACE, and then RESOURCE/NAME/SUBRESOURCE.
func newCall(r *http.Request) (call, error) {
	c := call{http: r, Request: Request{UserAgent: r.UserAgent()}}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	parts = append(parts[2:], "", "", "", "", "")
	if parts[0] == "namespaces" {
		c.Namespace, parts = parts[1], parts[2:]
	}
	all := resources()
	i := slices.IndexFunc(all, func(known resource) bool {
		return known.name == parts[0] && known.kind.Group == group
	})
	if i < 0 {
		return c, errors.New("the server has no resource for " + r.URL.Path)
	}
	c.resource, c.Name, c.subresource = all[i], parts[1], parts[2]
	c.Resource = strings.TrimSuffix(parts[0]+"/"+parts[2], "/")
	c.Verb = c.verb()
	if r.Body != nil {
		var err error
		if c.body, err = io.ReadAll(r.Body); err != nil {
			return c, err
		}
	}
	c.info = negotiate(r.Header.Get("Accept"))
	return c, nil
}

func (c call) verb() string {
	watches := c.http.URL.Query().Get("watch")
	switch {
	case c.http.Method == http.MethodGet && (watches == "true" || watches == "1"):
		return "watch"
	case c.http.Method == http.MethodGet && c.Name == "":
		return "list"
	}
	return map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	}[c.http.Method]
}

// negotiate returns the first format of an Accept header that the server knows, or JSON.
func negotiate(accept string) runtime.SerializerInfo {
	for format := range strings.SplitSeq(accept, ",") {
		mediaType, _, err := mime.ParseMediaType(format)
		if err != nil {
			continue
		}
		if info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType); ok {
			return info
		}
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return info
}

// encoder returns what encodes objects for the answer.
func (c call) encoder(version schema.GroupVersion) runtime.Encoder {
	return scheme.Codecs.EncoderForVersion(c.info.Serializer, version)
}

// answer returns the HTTP response with an object, or with the status that an error stands for.
func (c call) answer(out runtime.Object, err error) (*http.Response, error) {
	code := http.StatusOK
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		refusal := status.Status()
		out, code = &refusal, int(refusal.Code)
	}
	version := c.resource.kind.GroupVersion()
	if _, isStatus := out.(*metav1.Status); isStatus {
		version = schema.GroupVersion{Version: "v1"}
	}
	body, err := runtime.Encode(c.encoder(version), out)
	if err != nil {
		return nil, err
	}
	return c.response(code, c.info.MediaType, io.NopCloser(strings.NewReader(string(body)))), nil
}

func (c call) response(code int, mediaType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {mediaType}}, Body: body, Request: c.http,
	}
}

// read decodes the body of a request.
func (c call) read(into runtime.Object) error {
	if len(c.body) == 0 {
		return nil
	}
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.body, nil, into)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
