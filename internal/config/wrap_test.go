package config

import (
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/text"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, v := range Variables() {
		for width := range 120 {
			if got := strings.Join(strings.Fields(text.Indent(v.Help, "", width)), " "); got != v.Help {
				t.Errorf("a width of %d changes the words of %s:\n%s", width, v.Name, got)
			}
		}
	}
}
