package awsim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// arrivals are the bodies of the messages in order of their receipt, each once for each copy, with the whole minute
// of its arrival.
func (a *account) arrivals(minutes int) (all []string) {
	for minute := range minutes + 1 {
		for {
			got := do(a.t, a.sqs.ReceiveMessage, &sqs.ReceiveMessageInput{
				QueueUrl: &a.queue, MaxNumberOfMessages: 10, VisibilityTimeout: 43200,
			}).Messages
			if len(got) == 0 {
				break
			}
			for _, m := range got {
				all = append(all, fmt.Sprintf("%s %d", *m.Body, minute))
			}
		}
		<-time.After(time.Minute)
	}
	return all
}

// TestDisturbedQueue: of 200 messages the expected share is lost, comes twice, comes late; the seed decides which.
func TestDisturbedQueue(t *testing.T) {
	for name, row := range map[string]struct {
		d                awsim.Disturbance
		count, late      [2]int // Copies that arrive, and how many of them later than the others: from, to.
		sorted, repeated bool
	}{
		"nothing": {count: [2]int{200, 200}, sorted: true},
		"lost":    {d: awsim.Disturbance{Lose: 0.25}, count: [2]int{120, 180}, sorted: true},
		"twice":   {d: awsim.Disturbance{Duplicate: 0.25}, count: [2]int{220, 280}, sorted: true, repeated: true},
		"late": {
			d: awsim.Disturbance{Delay: 0.5, MaxDelay: 10 * time.Minute}, count: [2]int{200, 200}, late: [2]int{70, 130},
		},
		"twice, and the copies late": {
			d:     awsim.Disturbance{Duplicate: 1, Delay: 1, MaxDelay: 10 * time.Minute},
			count: [2]int{400, 400}, late: [2]int{360, 400}, repeated: true,
		},
		"in any order": {d: awsim.Disturbance{Reorder: true}, count: [2]int{200, 200}},
	} {
		run := func(seed uint64) (arrived []string) {
			inVirtualTime(t, fmt.Sprint(name, " ", seed), func(a *account) {
				if name != "nothing" {
					row.d.Rand = rand.New(rand.NewPCG(seed, 0))
				}
				a.Disturb(a.queue, row.d)
				for n := range 200 {
					a.Send(a.queue, fmt.Sprintf("%03d", n))
				}
				arrived = a.arrivals(11)
				a.Disturb(a.queue, awsim.Disturbance{})
				a.Send(a.queue, "undisturbed")
				if got := a.arrivals(0); !slices.Equal(got, []string{"undisturbed 0"}) {
					a.t.Errorf("when it has ended: %q", got)
				}
			})
			return arrived
		}
		one := run(1)
		late := len(slices.DeleteFunc(slices.Clone(one), func(a string) bool { return strings.HasSuffix(a, " 0") }))
		once := slices.Compact(slices.Sorted(slices.Values(one)))
		if len(one) < row.count[0] || len(one) > row.count[1] || late < row.late[0] || late > row.late[1] ||
			slices.IsSorted(one) != row.sorted || (len(once) < len(one)) != row.repeated {
			t.Errorf("%s: %d arrived, %d of them late, sorted %t, repeated %t", name, len(one), late, slices.IsSorted(one),
				len(once) < len(one))
		}
		if again, other := run(1), run(2); !slices.Equal(one, again) || name != "nothing" && slices.Equal(one, other) {
			t.Errorf("%s: the seed does not decide", name)
		}
	}
}

// TestCopiesHaveOneID: a consumer can tell a copy by its id.
func TestCopiesHaveOneID(t *testing.T) {
	inVirtualTime(t, "twice", func(a *account) {
		a.Disturb(a.queue, awsim.Disturbance{Rand: rand.New(rand.NewPCG(1, 0)), Duplicate: 1})
		id := a.Send(a.queue, "a")
		got := do(a.t, a.sqs.ReceiveMessage, &sqs.ReceiveMessageInput{QueueUrl: &a.queue, MaxNumberOfMessages: 10}).Messages
		if len(got) != 2 || *got[0].MessageId != id || *got[1].MessageId != id || *got[0].ReceiptHandle == *got[1].ReceiptHandle {
			a.t.Errorf("sent %s, got %v", id, got)
		}
	})
}
