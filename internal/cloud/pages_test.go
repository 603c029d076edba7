package cloud_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cloud"
)

var errPage = errors.New("throttled")

// pages are the pages of an answer; after them, if fails is set, one that cannot be read.
type pages struct {
	left  []int
	fails bool
}

func (p *pages) HasMorePages() bool { return len(p.left) > 0 || p.fails }

func (p *pages) NextPage(ctx context.Context, _ ...func(*struct{})) (*int, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("the call has no limit")
	}
	if len(p.left) == 0 {
		return nil, errPage
	}
	page := p.left[0]
	p.left = p.left[1:]
	return &page, nil
}

func TestEachPage(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var got []int
		all := &pages{[]int{1, 2}, fails}
		err := cloud.EachPage(t.Context(), time.Minute, "list", all, func(n *int) { got = append(got, *n) })
		if !slices.Equal(got, []int{1, 2}) {
			t.Errorf("visited %v", got)
		}
		if fails != errors.Is(err, errPage) || fails && err.Error() != "list: throttled" {
			t.Errorf("fails %v: got error %v", fails, err)
		}
	}
}
