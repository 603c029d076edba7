package app

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswers: how long the API server has not answered after requests that end like this.
func TestAnswers(t *testing.T) {
	refused := errors.New("connection refused")
	for _, tt := range []struct {
		name  string
		ends  []error // of requests that take a second, one after the other
		hangs bool    // a request is sent then that has no answer
		want  time.Duration
		err   error
	}{
		{"no request", nil, false, 0, nil},
		{"answers", []error{nil, nil}, false, 0, nil},
		{"refused", []error{refused, refused}, false, 12 * time.Second, refused},
		{"refused, and then an answer", []error{refused, nil}, false, 0, nil},
		{"no answer", nil, true, 10 * time.Second, nil},
		{"no answer after an answer", []error{refused, nil}, true, 10 * time.Second, nil},
		{"canceled", []error{context.Canceled}, false, 0, nil},
		{"canceled after a failure", []error{refused, context.Canceled}, false, 12 * time.Second, refused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a answers
				ended := make(chan error)
				rt := a.wrap(roundTripper(func(*http.Request) (*http.Response, error) { return nil, <-ended }))
				send := func() { _, _ = rt.RoundTrip(nil) }
				for _, err := range tt.ends {
					go send()
					time.Sleep(time.Second)
					ended <- err
					synctest.Wait()
				}
				if tt.hangs {
					go send()
				}
				time.Sleep(10 * time.Second)
				if d, err := a.unanswered(); d != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("unanswered for %v with %v, want %v with %v", d, err, tt.want, tt.err)
				}
				close(ended)
			})
		})
	}
}
