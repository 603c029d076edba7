// Package batch combines concurrent calls for one input each into one call for many.
package batch

import (
	"context"
	"sync"
	"time"
)

// Result is the result of one input.
type Result[Out any] struct {
	Value Out
	Err   error
}

// Results returns for each input its value, which is zero if it is not in values, or the error of all.
func Results[In comparable, Out any](inputs []In, values map[In]Out, err error) []Result[Out] {
	results := make([]Result[Out], len(inputs))
	for i, in := range inputs {
		if results[i].Err = err; err == nil {
			results[i].Value = values[in]
		}
	}
	return results
}

// Call processes a batch. It returns one result for each input, in the order of the inputs.
type Call[In, Out any] func(ctx context.Context, inputs []In) []Result[Out]

// Batcher collects inputs until there are Max of them, or Window has passed since the first. Set its exported
// fields before the first Do. It has no goroutine while no input waits.
type Batcher[In, Out any] struct {
	Max    int           // most inputs of one call
	Window time.Duration // how long the first input of a batch waits for others
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

// Do adds the input to the open batch and returns its result. If the caller's context ends first, Do returns
// the context's cause at once; the input is processed nevertheless.
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
			go b.flush(p)
		}
	}
	return p, len(p.inputs) - 1
}

// flush processes a batch that is full, or whose window has passed. If both happen at the same moment, only the
// timer calls it, since add could not stop it.
func (b *Batcher[In, Out]) flush(p *pending[In, Out]) {
	b.mu.Lock()
	if b.open == p {
		b.open = nil
	}
	b.mu.Unlock()
	p.results = b.Call(p.ctx, p.inputs)
	close(p.done)
}
