package trigger

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestResumeFindsTheSurge: a trigger was killed between the call that raised the desired capacity from 4 to 6 and the
// record of it, and another client has asked for one more since.
func TestResumeFindsTheSurge(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(4))
	a.tag(refresh.SurgeTag, refresh.RaisedBy(refresh.Group{Desired: 4}, 2, time.Now()).String())
	a.resize(6)
	a.resize(7)
	a.trigger("resume").waitExit(0, `raised the desired capacity from 4 to 6`, `lowered from 7 to 5`)
}
