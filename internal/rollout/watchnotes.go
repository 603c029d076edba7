package rollout

import (
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// watchNotes reports what happens between the rollouts of a Watcher.
type watchNotes struct {
	reporter report.Reporter
	last     map[string]string // the last note on each group; on the windows under ""
}

// once notes why a group is not rolled out, unless that was noted last.
func (n watchNotes) once(group, why string) {
	if n.last[group] != why {
		n.last[group] = why
		n.write(group, refresh.Warn, "%s", why)
	}
}

// forget makes the next note on the group new.
func (n watchNotes) forget(group string) { delete(n.last, group) }

// began notes what is watched.
func (n watchNotes) began(watched []refresh.Watched, interval time.Duration) {
	outdated := 0
	for _, g := range watched {
		outdated += g.Outdated
	}
	n.write("", refresh.OK, "watching %s every %v: %s", text.Count(len(watched), "group"), interval,
		text.Count(outdated, "outdated instance"))
}

// window notes when the windows open and close.
func (n watchNotes) window(w refresh.Windows) {
	if now := w.Describe(time.Now()); len(w) > 0 && n.last[""] != now {
		n.last[""] = now
		n.write("", refresh.OK, "%s", now)
	}
}

func (n watchNotes) write(group string, level refresh.Level, format string, args ...any) {
	n.reporter.Note(group, report.Note{At: time.Now(), Level: level, Text: fmt.Sprintf(format, args...)})
}
