package awsim

import (
	"context"
	"net/http"
	"net/http/httptest"
)

// RoundTrip answers a request as the server would, without a connection. It makes a Server the Transport of an
// http.Client.
func (s *Server) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s.work.Add(1)
	defer s.work.Done()
	defer context.AfterFunc(s.ctx, cancel)() //nolint:contextcheck // Close ends the request too.
	defer func() {
		if reason := recover(); reason == http.ErrAbortHandler { //nolint:errorlint // It is passed as it is.
			answer, err = nil, errDropped
		} else if reason != nil {
			panic(reason)
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer func() { _ = r.Body.Close() }()
	w := httptest.NewRecorder()
	s.serveAWS(w, r.WithContext(ctx))
	return w.Result(), nil
}
