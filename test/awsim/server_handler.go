package awsim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// request is one API call on its way through the server.
type request struct {
	id      string
	key     string // The access key that signed it.
	service *service
	action  string
	in      input
}

// serveAWS answers one API call: faults first, then the action, then the response in one piece.
func (s *Server) serveAWS(w http.ResponseWriter, r *http.Request) {
	// The whole body is read before anything is answered. A client that is answered while it still
	// sends cannot use the connection again, and net/http notices a client that went away (which
	// ends r.Context, and so a long poll) only once the body has been read.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // The client has gone away.
	}
	req, refusal := s.parse(r, body)
	if refusal != nil {
		s.answerError(w, req.service, req.id, refusal)
		return
	}
	call := s.begin(req, time.Now())
	out, err := s.perform(r.Context(), req)
	switch {
	case errors.Is(err, errDropped) || r.Context().Err() != nil:
		s.end(call, codeDropped)
		panic(http.ErrAbortHandler)
	case err != nil:
		failure := asError(err)
		s.end(call, failure.Code)
		s.answerError(w, req.service, req.id, failure)
	default:
		s.answer(w, req, out)
	}
}

// perform executes the request, unless a fault precedes it or IAM denies it.
func (s *Server) perform(ctx context.Context, req request) (any, error) {
	latency, fault := s.faults.take(req, time.Now())
	if !wait(ctx, latency) {
		return nil, errDropped
	}
	if fault != nil && !fault.AfterApply {
		return nil, fault.err(req.service.name)
	}
	if err := s.authorize(req); err != nil {
		return nil, err
	}
	out, err := req.service.actions[req.action](ctx, req.in)
	if fault != nil {
		return nil, fault.err(req.service.name)
	}
	return out, err
}

func asError(err error) *Error {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure
	}
	return &Error{Code: "InternalFailure", Message: err.Error(), Status: http.StatusInternalServerError}
}

// parse finds out which service and action a request is for. The request that it returns always has
// a service, so that a refusal can be written in a protocol that the client understands.
func (s *Server) parse(r *http.Request, body []byte) (request, *Error) {
	key := accessKey(r.Header.Get("Authorization"))
	req := request{id: s.requestIDs.next(), key: key, in: input{Key: key, Body: body}}
	name, action, isJSON := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	operation, isCBOR := cloudwatchAction(r.URL.Path)
	route, values, isREST := eksRoute(r)
	switch {
	case isCBOR:
		name, action = "CloudWatch", operation
	case isREST:
		name, action, req.in.Values = eksName, route, values
	case !isJSON:
		req.in.Values, _ = url.ParseQuery(string(body)) // What is no form has no version.
		name, action = req.in.Values.Get("Version"), req.in.Values.Get("Action")
	}
	req.service, req.action = s.services[name], action
	if req.service == nil {
		req.service = queryService("", "", nil)
		return req, errorf("NoSuchVersion", "The requested version (%s) is not known here.", name)
	}
	// The signature itself is not verified: that would check the SDK's code, not ours.
	if req.key == "" {
		return req, errorf("MissingAuthenticationToken", "Request is missing Authentication Token")
	}
	if req.service.actions[action] == nil {
		return req, errorf("InvalidAction", "The action %s is not valid for this web service.", action)
	}
	return req, nil
}

// accessKey is the access key in a SigV4 Authorization header, or empty if it is not one:
// AWS4-HMAC-SHA256 Credential=KEY/20260101/eu-central-1/sqs/aws4_request, SignedHeaders=…, Signature=….
func accessKey(authorization string) string {
	_, scope, _ := strings.Cut(authorization, "AWS4-HMAC-SHA256 Credential=")
	key, _, _ := strings.Cut(scope, "/")
	return key
}

func (s *Server) answer(w http.ResponseWriter, req request, out any) {
	body, err := req.service.encode(req.action, req.id, out)
	if err != nil {
		s.answerError(w, req.service, req.id, asError(err))
		return
	}
	s.write(w, req.service.contentType, req.id, http.StatusOK, body)
}

func (s *Server) answerError(w http.ResponseWriter, svc *service, requestID string, err *Error) {
	s.write(w, svc.contentType, requestID, err.Status, svc.fail(w.Header(), requestID, err))
}

// write answers in one piece and with its length.
func (s *Server) write(w http.ResponseWriter, contentType, requestID string, status int, body []byte) {
	h := w.Header()
	h.Set("Date", s.date())
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
