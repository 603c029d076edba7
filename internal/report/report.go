package report

import (
	"fmt"
	"io"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Format is how a plan, a status or a rollout is written.
type Format string

// The formats.
const (
	FormatAuto   Format = "auto"   // A live view on a terminal, otherwise text.
	FormatText   Format = "text"   // A line for each change.
	FormatJSON   Format = "json"   // One JSON document.
	FormatNDJSON Format = "ndjson" // A JSON object on each line, for each change.
)

// Options say where and how a rollout is reported.
type Options struct {
	Format   Format
	Out      io.Writer
	Terminal bool                    // Out is a terminal that understands control sequences.
	Size     func() (cols, rows int) // Of that terminal; 0 if not known.
	Color    bool                    // Colors are allowed there. The caller honors NO_COLOR.
	GitHub   bool                    // Text is written with the workflow commands of GitHub Actions.
}

// New returns a Reporter for the format. It writes control characters only to a terminal.
func New(o Options) Reporter {
	w := &writer{out: o.Out}
	switch {
	case o.Format == FormatNDJSON:
		return &ndjsonReporter{writer: w, now: time.Now}
	case o.Format == FormatJSON:
		return &jsonReporter{w}
	case o.Format == FormatAuto && o.Terminal:
		w.colors = o.Color
		return &liveReporter{textReporter: textReporter{writer: w}, size: o.Size}
	case o.GitHub:
		w.escape = escapeCommand
		return &githubReporter{textReporter{writer: w}}
	default:
		return &textReporter{writer: w}
	}
}

// writer writes until an error, and keeps the error.
type writer struct {
	out    io.Writer
	colors bool
	escape func(line string) string // Applied to lines, if set.
	err    error
}

func (s *writer) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, text)
	}
}

// lines writes each of the lines, without control characters of its content.
func (s *writer) lines(lines ...line) {
	for _, l := range lines {
		content := l.clean().render(s.colors)
		if s.escape != nil {
			content = s.escape(content)
		}
		s.write(content + "\n")
	}
}

// Err returns the first error of writing.
func (s *writer) Err() error { return s.err }

// heartbeat is the time without changes after which the progress is reported again.
const heartbeat = time.Minute

// silence is how long the reporters that write line by line have written nothing.
type silence struct {
	since   time.Time
	written bool // Something, since the last look.
}

// due returns what to write after a minute without changes: the progress of the running groups.
func (s *silence) due(r Rollout) []Change {
	if s.written || s.since.IsZero() {
		s.since, s.written = r.At, false
	}
	if r.At.Sub(s.since) < heartbeat {
		return nil
	}
	s.since = r.At
	return heartbeats(r)
}

// heartbeats returns the progress of each running group, and of its drains.
func heartbeats(r Rollout) []Change {
	var all []Change
	for _, g := range r.Groups {
		if g.Outcome != "" || g.Phase == Queued || g.Phase == "" {
			continue
		}
		all = append(all, Change{
			At: r.At, Group: g, Kind: KindProgress, Level: refresh.OK,
			Text: joinNonEmpty("; ", g.progress(), g.counts(), g.Reason, g.drainProgress()),
		})
	}
	return all
}

// maxDrains is the most drains on one line.
const maxDrains = 3

// drainProgress describes the progress of the draining nodes, blocked ones first, and counts those above
// maxDrains.
func (g Group) drainProgress() string {
	draining := g.find(func(i Instance) bool { return i.draining() && i.drainMessage() != "" })
	sortFirst(draining, Instance.blocked)
	var words []string
	for _, i := range draining[:min(len(draining), maxDrains)] {
		words = append(words, fmt.Sprintf("%s (node %s): %s", i.ID, i.nodeName(), i.drainMessage()))
	}
	if more := len(draining) - maxDrains; more > 0 {
		words = append(words, fmt.Sprintf("and %s more", text.Count(more, "draining node")))
	}
	return joinNonEmpty("; ", words...)
}
