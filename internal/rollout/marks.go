package rollout

import (
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// markVisible is how long after a mark the description of an instance may still show it as healthy. Auto Scaling
// documents no time; calls later than this describe what is so.
const markVisible = time.Minute

// mostMarks is how often an instance is marked unhealthy. A health check, or another client, may set it healthy again
// until its termination begins.
const mostMarks = 3

// mark is what this run has done to an instance.
type mark struct {
	at         time.Time
	times      int
	terminated bool // It was terminated, not marked unhealthy.
	takenBack  bool // The instance is healthy again.
}

// marks are the instances that this run has marked unhealthy or terminated, by their ids.
type marks map[string]mark

func (m marks) add(id string, terminated bool) {
	m[id] = mark{at: time.Now(), times: m[id].times + 1, terminated: terminated}
}

// active are the instances whose marks were not taken back.
func (m marks) active() map[string]bool {
	active := map[string]bool{}
	for id, mark := range m {
		active[id] = !mark.takenBack
	}
	return active
}

// takeBack finds the instances that are in service and healthy long after they were marked, and counts their marks as
// taken back.
func (m marks) takeBack(g refresh.Group) (found []string) {
	for _, i := range g.Instances {
		mark, marked := m[i.ID]
		done := !marked || mark.terminated || mark.takenBack
		if done || !i.Healthy || !i.InService() || time.Since(mark.at) < markVisible {
			continue
		}
		mark.takenBack = true
		m[i.ID] = mark
		found = append(found, i.ID)
	}
	return found
}
