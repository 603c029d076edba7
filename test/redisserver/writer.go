package redisserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Client is how an application writes.
type Client interface {
	// Set writes a key once.
	Set(ctx context.Context, key string) error
	// Count returns how many of the keys are stored.
	Count(ctx context.Context, keys []string) (int, error)
	Close() error
}

// Writer writes keys, one after the other.
type Writer struct {
	connect func() Client
	prefix  string
	stop    context.CancelFunc
	ended   chan struct{}

	mu    sync.Mutex
	acked []string
	last  time.Time // of the latest acknowledgment
	gap   time.Duration
}

// Report is what became of the writes.
type Report struct {
	Acknowledged int
	Lost         int           // acknowledged, and not stored
	Gap          time.Duration // the longest time between two acknowledgments
}

// The longest gaps that tests allow, which run beside others. They are far below what a gap is without a hand-over; how
// short it is on a machine that is not busy is what test/bench shows.
const (
	MaxGap = DownAfter / 2 // of a hand-over
	// A hand-over that is killed leaves writes paused for up to five seconds. Another one begins after that.
	MaxGapAfterKill = 2 * DownAfter
)

// Check returns an error unless writes were acknowledged, all of these are stored, and no gap was longer than most.
func (r Report) Check(most time.Duration) error {
	if r.Acknowledged == 0 || r.Lost > 0 || r.Gap > most {
		return fmt.Errorf("%s; want none lost, and a gap of %s at most", r, most)
	}
	return nil
}

func (r Report) String() string {
	return fmt.Sprintf("%d acknowledged, %d lost, longest gap %s", r.Acknowledged, r.Lost, r.Gap.Round(time.Millisecond))
}

// Write starts to write keys that begin with a prefix, about 150 a second, until Stop.
func Write(ctx context.Context, connect func() Client, prefix string) *Writer {
	ctx, stop := context.WithCancel(ctx)
	w := &Writer{connect: connect, prefix: prefix, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.run(ctx)
	}()
	return w
}

func (w *Writer) run(ctx context.Context) {
	client := w.connect()
	defer client.Close()
	tick := time.NewTicker(6 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%s%d", w.prefix, i)
		if client.Set(ctx, key) == nil {
			w.acknowledge(key)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (w *Writer) acknowledge(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if len(w.acked) > 0 {
		w.gap = max(w.gap, now.Sub(w.last))
	}
	w.acked, w.last = append(w.acked, key), now
}

// WaitAcknowledged waits until a write is acknowledged that began after the call.
func (w *Writer) WaitAcknowledged(ctx context.Context) error {
	return w.waitAcknowledged(ctx, time.Now().Add(timeout/100))
}

func (w *Writer) waitAcknowledged(ctx context.Context, begin time.Time) error {
	return wait(ctx, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.last.Before(begin) {
			return errors.New("no write was acknowledged")
		}
		return nil
	})
}

// Stop waits until a write succeeds, ends the writes, and looks for them.
func (w *Writer) Stop(ctx context.Context) (Report, error) {
	if err := w.waitAcknowledged(ctx, time.Now()); err != nil {
		return Report{}, err
	}
	w.stop()
	<-w.ended
	ctx, cancel := context.WithTimeout(ctx, 3*timeout)
	defer cancel()
	client := w.connect()
	defer client.Close()
	r := Report{Acknowledged: len(w.acked), Lost: len(w.acked), Gap: w.gap}
	for keys := range slices.Chunk(w.acked, 500) {
		err := wait(ctx, func() error {
			stored, err := client.Count(ctx, keys)
			r.Lost -= stored
			return err
		})
		if err != nil {
			return r, fmt.Errorf("count the keys of %s: %w", r, err)
		}
	}
	return r, nil
}
