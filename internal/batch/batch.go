// Package batch turns single calls that arrive together into one call for many.
package batch

import (
	"context"
	"sync"
	"time"
)

// Result is what one input of a batch came to.
type Result[Out any] struct {
	Value Out
	Err   error
}

// Call serves a whole batch. It returns one result for each input, in the order of the inputs.
type Call[In, Out any] func(ctx context.Context, inputs []In) []Result[Out]

// Batcher gathers inputs until Max of them are there or Window has passed since the first.
// Its three settings are fixed before the first Do. It owns no goroutine while nothing waits.
type Batcher[In, Out any] struct {
	Max    int           // most inputs of one call
	Window time.Duration // longest time that the first input of a batch waits for company
	Call   Call[In, Out]

	mu   sync.Mutex
	open *pending[In, Out]
}

type pending[In, Out any] struct {
	ctx     context.Context //nolint:containedctx // the first caller's values, for the call of the batch
	timer   *time.Timer
	inputs  []In
	results []Result[Out]
	done    chan struct{}
}

// Do adds in to the batch that is being gathered and returns its own result. A caller whose context ends
// leaves at once with the context's cause; its input is served all the same.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	p, i := b.add(ctx, in)
	select {
	case <-p.done:
		return p.results[i].Value, p.results[i].Err
	case <-ctx.Done():
		var none Out
		return none, context.Cause(ctx)
	}
}

func (b *Batcher[In, Out]) add(ctx context.Context, in In) (*pending[In, Out], int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.open
	if p == nil {
		p = &pending[In, Out]{ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
		p.timer = time.AfterFunc(b.Window, func() { b.flush(p) })
		b.open = p
	}
	p.inputs = append(p.inputs, in)
	if len(p.inputs) == b.Max {
		b.open = nil
		if p.timer.Stop() {
			go b.serve(p)
		}
	}
	return p, len(p.inputs) - 1
}

// flush serves a batch whose window has passed. A batch that was closed for being full at the same moment
// left its serving to the timer.
func (b *Batcher[In, Out]) flush(p *pending[In, Out]) {
	b.mu.Lock()
	if b.open == p {
		b.open = nil
	}
	b.mu.Unlock()
	b.serve(p)
}

func (b *Batcher[In, Out]) serve(p *pending[In, Out]) {
	p.results = b.Call(p.ctx, p.inputs)
	close(p.done)
}
