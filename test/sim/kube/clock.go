package kube

import (
	"container/heap"
	"sync"
	"time"
)

// clock calls functions at their time, one after the other: those of one moment in the order in which they were added.
// It is used with the server's lock, which it holds during the calls.
type clock struct {
	mu      *sync.Mutex
	queue   timers
	added   int
	running bool // run sets the alarm when it ends
	alarm   *time.Timer
}

// timer is a call to come.
type timer struct {
	at    time.Time
	order int // of being added
	index int // in the queue, -1 outside
	call  func()
}

// at has call called at a time, or as soon as the lock is free if that has passed.
func (c *clock) at(t time.Time, call func()) *timer {
	if now := time.Now(); t.Before(now) {
		t = now
	}
	c.added++
	next := &timer{at: t, order: c.added, call: call}
	heap.Push(&c.queue, next)
	if next.index == 0 && !c.running {
		c.setAlarm()
	}
	return next
}

// after has call called after d.
func (c *clock) after(d time.Duration, call func()) *timer { return c.at(time.Now().Add(d), call) }

// cancel drops a call, if it is not nil and still to come.
func (c *clock) cancel(t *timer) {
	if t != nil && t.index >= 0 {
		heap.Remove(&c.queue, t.index)
	}
}

func (c *clock) setAlarm() {
	if len(c.queue) == 0 {
		return
	}
	wait := time.Until(c.queue[0].at)
	if c.alarm == nil {
		c.alarm = time.AfterFunc(wait, c.run)
		return
	}
	c.alarm.Reset(wait)
}

// run makes the calls that are due.
func (c *clock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
	for len(c.queue) > 0 && !c.queue[0].at.After(time.Now()) {
		heap.Pop(&c.queue).(*timer).call() //nolint:forcetypeassert // The queue has timers.
	}
	c.running = false
	c.setAlarm()
}

// timers is a heap.
type timers []*timer

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	if t[i].at.Equal(t[j].at) {
		return t[i].order < t[j].order
	}
	return t[i].at.Before(t[j].at)
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	next := x.(*timer) //nolint:forcetypeassert // The queue has timers.
	next.index = len(*t)
	*t = append(*t, next)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	last.index = -1
	*t = (*t)[:len(*t)-1]
	return last
}
