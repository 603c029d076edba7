package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestFirstErrors: an outage of EC2 with a thousand marked nodes is a short line of the log.
func TestFirstErrors(t *testing.T) {
	var same, different []error
	for i := range 1000 {
		same = append(same, errors.New("describe instances: no answer"))
		different = append(different, fmt.Errorf("uncordon node n-%d: conflict", i))
	}
	for want, err := range map[string]error{
		"no answer": errors.New("no answer"),
		"describe instances: no answer; and 999 more errors like these": errors.Join(same...),
		"a; b": errors.Join(errors.New("a"), errors.Join(nil, errors.New("b"))),
	} {
		if got := firstErrors(err).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := firstErrors(errors.Join(different...)).Error(); strings.Count(got, "conflict") != 5 || !strings.HasSuffix(got, "; and 995 more errors like these") {
		t.Errorf("got %q", got)
	}
}
