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
		{"sixth release", 6, Release(someErr), false, false, Released, 10 * time.Second},
		{"ninth release", 9, Release(someErr), false, false, Released, 80 * time.Second},
		{"hundredth release", 100, Release(someErr), false, false, Released, 5 * time.Minute},
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
	for _, tt := range []struct {
		name, url string
		valid     bool
	}{
		{"a queue", queueURL, true},
		{"local queue", "http://127.0.0.1:4566/000000000000/q", true},
		{"queue name", "node-drainer", false},
		{"ARN", "arn:aws:sqs:eu-central-1:1:q", false},
		{"URL without a path", "https://sqs.eu-central-1.amazonaws.com/", false},
		{"no URL", "https://a b/%", false},
		{"empty", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Config{URL: tt.url}.Validate()
			if (err == nil) != tt.valid || err != nil && !strings.HasPrefix(err.Error(), "QUEUE_URL is ") {
				t.Errorf("got %v, valid: %v", err, tt.valid)
			}
		})
	}
}
