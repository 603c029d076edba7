package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPlanProgress: a plan that takes long says every ten seconds how far it is, and a short one nothing.
func TestPlanProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := planProgress{out: &out, written: time.Now()}
		for read := range 60 { // two groups a second
			p.show(read+1, 60)
			time.Sleep(500 * time.Millisecond)
		}
		want := "trigger: 21 of 60 groups read\ntrigger: 41 of 60 groups read\n"
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}
