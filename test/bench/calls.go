package main

import (
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	// callWindow is the time over which calls are averaged.
	callWindow = 10
	// firstHeartbeats is how long a burst of first heartbeats may last, in seconds.
	firstHeartbeats = 30
)

// calls counts the calls to Auto Scaling, each second. The zero value is ready.
type calls struct {
	counts  []int // So far, at each second.
	stop    chan struct{}
	stopped chan struct{}
}

// begin begins to count.
func (c *calls) begin(aws *awsim.Server) {
	c.stop, c.stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.stopped)
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			c.counts = append(c.counts, autoScalingCalls(aws))
			select {
			case <-second.C:
			case <-c.stop:
				c.counts = append(c.counts, autoScalingCalls(aws))
				return
			}
		}
	}()
}

func autoScalingCalls(aws *awsim.Server) int {
	n := 0
	for action, count := range aws.Requests() {
		if strings.HasPrefix(action, "autoscaling.") {
			n += count
		}
	}
	return n
}

// end ends the count, and returns how many calls there were, and how many a second at most once the first heartbeats
// had been sent; 0 if it took no longer.
func (c *calls) end() (total int, perSecond float64) {
	if c.stop == nil {
		return 0, 0
	}
	close(c.stop)
	<-c.stopped
	c.stop = nil
	return c.counts[len(c.counts)-1] - c.counts[0], mostPerSecond(c.counts)
}

func mostPerSecond(counts []int) float64 {
	most := 0
	for i := firstHeartbeats + callWindow; i < len(counts); i++ {
		most = max(most, counts[i]-counts[i-callWindow])
	}
	return float64(most) / callWindow
}
