package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOutcomeOf(t *testing.T) {
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
		{"success", 1, nil, false, false, Deleted, 0},
		{"first failure", 1, someErr, false, false, Retried, time.Second},
		{"second failure", 2, someErr, true, false, Retried, 3 * time.Second},
		{"failure while the process stops", 9, someErr, true, true, Released, 0},

		{"first release", 1, Release(someErr), false, false, Released, 0},
		{"fourth release", 4, Release(someErr), false, false, Released, 7 * time.Second},
		{"ninth release", 9, Release(someErr), false, false, Released, 10 * time.Second},
		{"release while the process stops", 3, Release(someErr), false, true, Released, 3 * time.Second},

		{"first rejection, with a redrive policy", 1, Reject(someErr), true, false, Rejected, time.Second},
		{"fourth rejection", 4, Reject(someErr), false, false, Rejected, 15 * time.Second},
		{"fifth rejection", 5, Reject(someErr), false, false, Dropped, 0},
		{"sixth rejection, while the process stops", 6, Reject(someErr), false, true, Dropped, 0},
		{"wrapped rejection", 5, fmt.Errorf("event: %w", Reject(someErr)), false, false, Dropped, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, after := outcomeOf(tt.receives, tt.err, tt.redrive, tt.stopping)
			if got != tt.want || after != tt.after {
				t.Errorf("got %s after %v, want %s after %v", got, after, tt.want, tt.after)
			}
			if !slices.Contains(Outcomes(), got) {
				t.Errorf("%s is not among the outcomes", got)
			}
		})
	}
}

func TestVerdictsUnwrap(t *testing.T) {
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
	valid := Config{URL: queueURL, VisibilityTimeout: time.Minute, MaxInFlight: 1, Receivers: 1}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string // variables that the error names
	}{
		{"valid", func(*Config) {}, nil},
		{"shortest visibility timeout", func(c *Config) { c.VisibilityTimeout = 3 * time.Second }, nil},
		{"longest visibility timeout, most in flight", func(c *Config) { c.VisibilityTimeout, c.MaxInFlight = 12*time.Hour, 120_000 }, nil},
		{"local queue", func(c *Config) { c.URL = "http://127.0.0.1:4566/000000000000/q" }, nil},
		{"queue name", func(c *Config) { c.URL = "node-drainer" }, []string{"QUEUE_URL"}},
		{"ARN", func(c *Config) { c.URL = "arn:aws:sqs:eu-central-1:1:q" }, []string{"QUEUE_URL"}},
		{"URL without a path", func(c *Config) { c.URL = "https://sqs.eu-central-1.amazonaws.com/" }, []string{"QUEUE_URL"}},
		{"no URL", func(c *Config) { c.URL = "https://a b/%" }, []string{"QUEUE_URL"}},
		{"visibility timeout too short", func(c *Config) { c.VisibilityTimeout = 2 * time.Second }, []string{"QUEUE_VISIBILITY_TIMEOUT"}},
		{"visibility timeout too long", func(c *Config) { c.VisibilityTimeout = 12*time.Hour + 1 }, []string{"QUEUE_VISIBILITY_TIMEOUT"}},
		{"no message in flight", func(c *Config) { c.MaxInFlight = 0 }, []string{"QUEUE_MAX_IN_FLIGHT"}},
		{"more messages in flight than SQS allows", func(c *Config) { c.MaxInFlight = 120_001 }, []string{"QUEUE_MAX_IN_FLIGHT"}},
		{"no receivers", func(c *Config) { c.Receivers = 0 }, []string{"QUEUE_RECEIVERS"}},
		{"too many receivers", func(c *Config) { c.Receivers = 101 }, []string{"QUEUE_RECEIVERS"}},
		{"several errors", func(c *Config) { *c = Config{MaxInFlight: -1} }, []string{
			"QUEUE_URL", "QUEUE_VISIBILITY_TIMEOUT", "QUEUE_MAX_IN_FLIGHT", "QUEUE_RECEIVERS",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := valid
			tt.change(&cfg)
			var lines []string
			if err := cfg.Validate(); err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want errors about %q", lines, tt.want)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, tt.want[i]+" is ") {
					t.Errorf("got %q, want an error about %s", line, tt.want[i])
				}
			}
		})
	}
}
