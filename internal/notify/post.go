package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// poster sends requests to one URL. It follows no redirects: the headers and the body are for that URL alone.
type poster struct {
	url     string
	header  http.Header
	timeout time.Duration
	client  *http.Client
}

func newPoster(cfg Config, header http.Header, transport http.RoundTripper) poster {
	header = header.Clone()
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "node-drainer")
	}
	return poster{cfg.URL, header, cfg.Timeout, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// statusError is an answer other than 2xx. It does not contain the body of the answer, which may repeat the URL.
type statusError struct {
	code       int
	retryAfter time.Duration // zero if the answer does not say
}

// Error implements error.
func (e statusError) Error() string {
	return fmt.Sprintf("the answer is %d %s", e.code, http.StatusText(e.code))
}

// isFinal reports whether another attempt is useless.
func isFinal(err error) bool {
	status, ok := errors.AsType[statusError](err)
	return ok && status.code < http.StatusInternalServerError &&
		status.code != http.StatusTooManyRequests && status.code != http.StatusRequestTimeout
}

// try posts the body, several times if that can help and until ctx ends, and returns the last error. The answer may ask
// for longer pauses. Requests end with the other context.
func (p poster) try(ctx, requests context.Context, body []byte) (err error) {
	pauses := retry.Backoff(firstPause, longestPause)
	for attempt := 1; ; attempt++ {
		err = p.post(requests, body)
		if err == nil || isFinal(err) || attempt == attempts {
			return err
		}
		status, _ := errors.AsType[statusError](err)
		if !retry.Sleep(ctx, max(pauses.Step(), min(status.retryAfter, longestPause))) {
			return err
		}
	}
}

// maxBytes is how much of an answer is read, so that its connection can be used again.
const maxBytes = 64 << 10

func (p poster) post(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	request.Header = p.header.Clone()
	response, err := p.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxBytes))
	if response.StatusCode/100 == http.StatusOK/100 {
		return nil
	}
	return statusError{response.StatusCode, retryAfter(response.Header.Get("Retry-After"))}
}

// withoutURL returns the cause of an error of net/http, whose own text contains the URL.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// retryAfter returns how long to wait, which the header says in seconds or as a date.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 16); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(0, time.Until(at))
}
