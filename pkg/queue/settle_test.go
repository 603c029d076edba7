package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettle(t *testing.T) {
	someErr := errors.New("some error")
	for _, tt := range []struct {
		name     string
		receives int
		err      error
		redrive  bool
		stopping bool
		want     Outcome
		after    time.Duration
	}{
		{"what is done is deleted", 1, nil, false, false, Deleted, 0},
		{"what is done is deleted, also by a process that stops", 7, nil, true, true, Deleted, 0},

		{"what failed is tried again after a second", 1, someErr, false, false, Retried, time.Second},
		{"what failed twice is tried again after three", 2, someErr, true, false, Retried, 3 * time.Second},
		{"what fails on and on is tried every minute", 1000, someErr, false, false, Retried, time.Minute},
		{"what a process that stops left is visible at once", 9, someErr, true, true, Released, 0},

		{"what is somebody else's is visible at once", 1, Release(someErr), false, false, Released, 0},
		{"what nobody else takes comes back less often", 4, Release(someErr), false, false, Released, 7 * time.Second},
		{"and is never hidden from its owner for long", 9, Release(someErr), false, false, Released, 10 * time.Second},
		{"a verdict holds also while the process stops", 3, Release(someErr), false, true, Released, 3 * time.Second},

		{"what cannot be helped is left to the redrive policy", 1, Reject(someErr), true, false, Rejected, time.Second},
		{"a redrive policy may allow many deliveries", 50, Reject(someErr), true, false, Rejected, time.Minute},
		{"without one, it comes back a fourth time", 4, Reject(someErr), false, false, Rejected, 15 * time.Second},
		{"without one, it is deleted at the fifth", 5, Reject(someErr), false, false, Dropped, 0},
		{"without one, it is deleted after the fifth", 6, Reject(someErr), false, true, Dropped, 0},
		{"a verdict may be wrapped", 5, fmt.Errorf("event: %w", Reject(someErr)), false, false, Dropped, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, after := settle(tt.receives, tt.err, tt.redrive, tt.stopping)
			if got != tt.want || after != tt.after {
				t.Errorf("got %s after %v, want %s after %v", got, after, tt.want, tt.after)
			}
			if !slices.Contains(Outcomes(), got) {
				t.Errorf("%s is not among the outcomes", got)
			}
		})
	}
}

func TestVerdictsKeepTheError(t *testing.T) {
	cause := errors.New("cause")
	for _, err := range []error{Reject(cause), Release(cause)} {
		if !errors.Is(err, cause) || err.Error() != "cause" {
			t.Errorf("%v hides its cause", err)
		}
	}
}

func TestBackoff(t *testing.T) {
	var got []time.Duration
	for n := -1; n < 8; n++ {
		got = append(got, backoff(n)/time.Second)
	}
	if want := []time.Duration{0, 0, 1, 3, 7, 15, 31, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestValidate(t *testing.T) {
	good := Config{URL: queueURL, VisibilityTimeout: time.Minute, MaxInFlight: 1, Receivers: 1}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string // variables that are complained about
	}{
		{"good", func(*Config) {}, nil},
		{"the least", func(c *Config) { c.VisibilityTimeout = 3 * time.Second }, nil},
		{"the most", func(c *Config) { c.VisibilityTimeout, c.MaxInFlight = 12*time.Hour, 120_000 }, nil},
		{"a queue of a test", func(c *Config) { c.URL = "http://127.0.0.1:4566/000000000000/q" }, nil},
		{"a queue's name", func(c *Config) { c.URL = "node-drainer" }, []string{"QUEUE_URL"}},
		{"an ARN", func(c *Config) { c.URL = "arn:aws:sqs:eu-central-1:1:q" }, []string{"QUEUE_URL"}},
		{"no queue in the URL", func(c *Config) { c.URL = "https://sqs.eu-central-1.amazonaws.com/" }, []string{"QUEUE_URL"}},
		{"no URL at all", func(c *Config) { c.URL = "https://a b/%" }, []string{"QUEUE_URL"}},
		{"too short", func(c *Config) { c.VisibilityTimeout = 2 * time.Second }, []string{"QUEUE_VISIBILITY_TIMEOUT"}},
		{"too long", func(c *Config) { c.VisibilityTimeout = 12*time.Hour + 1 }, []string{"QUEUE_VISIBILITY_TIMEOUT"}},
		{"none at a time", func(c *Config) { c.MaxInFlight = 0 }, []string{"QUEUE_MAX_IN_FLIGHT"}},
		{"more than SQS allows", func(c *Config) { c.MaxInFlight = 120_001 }, []string{"QUEUE_MAX_IN_FLIGHT"}},
		{"nobody receives", func(c *Config) { c.Receivers = 0 }, []string{"QUEUE_RECEIVERS"}},
		{"a crowd of receivers", func(c *Config) { c.Receivers = 101 }, []string{"QUEUE_RECEIVERS"}},
		{"all at once", func(c *Config) { *c = Config{MaxInFlight: -1} }, []string{
			"QUEUE_URL", "QUEUE_VISIBILITY_TIMEOUT", "QUEUE_MAX_IN_FLIGHT", "QUEUE_RECEIVERS",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			var lines []string
			if err := cfg.Validate(); err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want complaints about %q", lines, tt.want)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, tt.want[i]+" is ") {
					t.Errorf("got %q, want a complaint about %s", line, tt.want[i])
				}
			}
		})
	}
}
