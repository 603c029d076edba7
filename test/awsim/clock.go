package awsim

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock is what the server tells the time by, in messages and answers. Everything that it waits for takes as long
// as it would without a skew.
type Clock struct{ skew atomic.Int64 }

// SetSkew makes the server's clock run ahead of the caller's, or behind it.
func (c *Clock) SetSkew(ahead time.Duration) { c.skew.Store(int64(ahead)) }

// told returns a time as the server tells it.
func (c *Clock) told(t time.Time) time.Time { return t.Add(time.Duration(c.skew.Load())) }

// date returns the present as a header of an answer.
func (c *Clock) date() string { return c.told(time.Now()).UTC().Format(http.TimeFormat) }
