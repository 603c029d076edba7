package agent

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

// TestOwnersAreThoseOfAMark: what a drain knew of the controllers of a node's pods is over when the node was uncordoned.
func TestOwnersAreThoseOfAMark(t *testing.T) {
	var h drainHistory
	since := time.Now()
	h.add("uid-1", since, drain.Report{Owners: &drain.Owners{}})
	h.repeat("uid-1")
	if _, ok := h.find("uid-1", since); ok {
		t.Error("a drain that is to be repeated counts as one that has ended")
	}
	if h.owners("uid-1", since.Add(time.Hour), since) == nil {
		t.Error("the owners of the mark are forgotten when it has got another time")
	}
	if h.owners("uid-1", since.Add(time.Hour), time.Time{}) != nil {
		t.Error("the owners are those of a mark that was removed")
	}
}
