package report

import (
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// holdLines returns a table of what triggers hold; no lines if that is nothing.
func holdLines(holds []refresh.Hold, width int) []line {
	if len(holds) == 0 {
		return nil
	}
	rows := [][]span{cells("HELD BY", "EXPIRES", "WHAT")}
	for _, h := range holds {
		expires := ""
		if !h.Expires.IsZero() {
			expires = h.Expires.UTC().Format(time.RFC3339)
		}
		owner := h.Owner
		if owner == "" {
			owner = "nobody"
		}
		rows = append(rows, cells(owner, expires, h.Text))
	}
	return indented(table(rows, max(width-2, 0)))
}
