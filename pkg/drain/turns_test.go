package drain

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// TestAnswerAboutAnEarlierGroup: while a is asked, b is evicted, whose node has no time left. The answer that a may go
// is not used.
func TestAnswerAboutAnEarlierGroup(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		c, a := startAsking(t, true, always(handover.Answer{Go: true, Outcome: handover.NotLeading}),
			memberPod("a", "test"), memberPod("b", "test", on("o")))
		first := c.drain("n", time.Hour)
		synctest.Wait()
		c.expectDrained(c.drain("o", time.Second), 1)
		c.expectDrained(first, 1)
		c.expectRequests("evict o/b in 1s", "evict n/a")
		c.expect(t, "put off a: group-behind another member was removed while this one was asked")
		if !slices.Equal(a.calls, []string{"a", "a"}) || c.requests[1].after < handOverPause {
			t.Errorf("calls: %q, %+v", a.calls, c.requests)
		}
	})
}
