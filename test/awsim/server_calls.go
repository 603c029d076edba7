package awsim

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"
)

// keptCalls bounds how many calls of each action are kept, so that a server may run for days.
const keptCalls = 2048

// Call is one API call that the server got.
type Call struct {
	At     time.Time  // When it had been read.
	Key    string     // The access key that signed it.
	Values url.Values // The form of a Query call.
	Body   []byte     // What was sent.
	// Code is the error that was answered: empty for success and for a call not answered yet, Dropped
	// for a call that got no answer.
	Code string
}

// CallLog records the API calls that the server gets.
type CallLog struct {
	mu       sync.Mutex
	byAction map[string][]*Call
	counts   map[string]int
	byKey    map[string]map[string]int
	changed  chan struct{} // Closed at the next call; nil without a wait.
}

func (c *CallLog) begin(req request, now time.Time) *Call {
	name := req.service.name + "." + req.action
	call := &Call{At: now, Key: req.key, Values: req.in.Values, Body: req.in.Body}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byAction == nil {
		c.byAction, c.counts = map[string][]*Call{}, map[string]int{}
		c.byKey = map[string]map[string]int{}
	}
	kept := append(c.byAction[name], call)
	if len(kept) > keptCalls {
		kept = slices.Clone(kept[keptCalls/2:])
	}
	c.byAction[name] = kept
	c.counts[name]++
	if c.byKey[req.key] == nil {
		c.byKey[req.key] = map[string]int{}
	}
	c.byKey[req.key][name]++
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	return call
}

func (c *CallLog) end(call *Call, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.Code = code
}

// Requests counts the calls so far by service and action, such as sqs.ReceiveMessage. Calls that were
// refused before they reached an action are not counted.
func (c *CallLog) Requests() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// RequestsBy is Requests of one access key.
func (c *CallLog) RequestsBy(accessKey string) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byKey[accessKey])
}

// WaitRequests blocks until an action has been called n times in all. An error means that ctx ended first.
func (c *CallLog) WaitRequests(ctx context.Context, service, action string, n int) error {
	for {
		c.mu.Lock()
		got := c.counts[service+"."+action]
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d calls of %s.%s: %w", got, n, service, action, ctx.Err())
		}
	}
}

// Calls is the latest calls of one action, oldest first: at least the last 1024 of them.
func (c *CallLog) Calls(service, action string) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Call
	for _, call := range c.byAction[service+"."+action] {
		list = append(list, *call)
	}
	return list
}
