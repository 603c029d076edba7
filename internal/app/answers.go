package app

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// answers knows since when the API server has not answered. client-go reports neither a connection that is refused nor
// one without an answer while it repeats a list or a watch. The zero value is ready.
type answers struct {
	mu      sync.Mutex
	pending int       // requests without an answer
	since   time.Time // when the first request after the last answer was sent; zero if none was
	failed  error     // the last error since; nil if there is none
}

// unanswered returns for how long the API server has not answered, 0 if it has answered all requests, and the last
// error.
func (a *answers) unanswered() (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		return 0, nil
	}
	return time.Since(a.since), a.failed
}

// wrap returns rt with its answers noted.
func (a *answers) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		a.begin()
		response, err := rt.RoundTrip(r)
		a.end(err)
		return response, err
	})
}

func (a *answers) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending++
	if a.since.IsZero() {
		a.since = time.Now()
	}
}

// end notes the end of a request. One that was canceled says nothing about the API server.
func (a *answers) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending--
	switch {
	case err == nil:
		a.since, a.failed = time.Time{}, nil
	case !errors.Is(err, context.Canceled):
		a.failed = err
	case a.pending == 0 && a.failed == nil:
		a.since = time.Time{}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
