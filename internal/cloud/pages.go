package cloud

import (
	"context"
	"fmt"
	"time"
)

// Paginator is implemented by the SDK's paginators.
type Paginator[Options, Out any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, options ...func(*Options)) (*Out, error)
}

// EachPage calls visit with every page. Each may take as long as limit. The error begins with what was being
// done.
func EachPage[Options, Out any](
	ctx context.Context, limit time.Duration, doing string, pages Paginator[Options, Out], visit func(*Out),
) error {
	for pages.HasMorePages() {
		ctx, cancel := context.WithTimeout(ctx, limit)
		out, err := pages.NextPage(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		visit(out)
	}
	return nil
}
