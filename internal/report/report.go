package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// The formats.
const (
	FormatAuto   = "auto"   // A live view on a terminal, otherwise text.
	FormatText   = "text"   // A line for each change.
	FormatJSON   = "json"   // One JSON document.
	FormatNDJSON = "ndjson" // A JSON object on each line, for each change.
)

// Options say where and how a rollout is reported.
type Options struct {
	Format   string // One of the formats; empty is FormatAuto.
	Out      io.Writer
	Terminal bool                    // Out is a terminal that understands control sequences.
	Size     func() (cols, rows int) // Of that terminal; 0 if not known. nil: 80 columns and 24 rows.
	Color    bool                    // Colors are allowed there. The caller honors NO_COLOR.
	GitHub   bool                    // Text is written with the workflow commands of GitHub Actions.
}

// New returns a Reporter for the format. It writes control characters only to a terminal. Err returns errors
// of writing.
func New(o Options) (Reporter, error) {
	switch o.Format {
	case FormatNDJSON:
		return NDJSON(o.Out, time.Now), nil
	case FormatJSON:
		return JSON(o.Out), nil
	case FormatText:
		return o.text(), nil
	case FormatAuto, "":
		if o.Terminal {
			return Live(o.Out, o.Size, o.Color), nil
		}
		return o.text(), nil
	}
	return nil, unknownFormat(o.Format)
}

func (o Options) text() Reporter {
	if o.GitHub {
		return GitHub(o.Out)
	}
	return Text(o.Out)
}

func unknownFormat(format string) error {
	return fmt.Errorf("unknown format %q: must be %s, %s, %s or %s",
		format, FormatAuto, FormatText, FormatJSON, FormatNDJSON)
}

// Err returns the first error of writing of the Reporter, or nil.
func Err(r Reporter) error {
	if keeper, ok := r.(interface{ Err() error }); ok {
		return keeper.Err()
	}
	return nil
}

// writer writes until an error, and keeps the error.
type writer struct {
	out io.Writer
	err error
}

func (s *writer) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, text)
	}
}

// lines writes each of the lines, without control characters of its content.
func (s *writer) lines(lines []line, colors bool) {
	for _, l := range lines {
		s.write(l.clean().render(colors) + "\n")
	}
}

// Err returns the first error of writing. Nothing was written after it.
func (s *writer) Err() error { return s.err }

// heartbeat is the time without changes after which the progress is reported again.
const heartbeat = time.Minute

// changeTracker finds the changes between snapshots, for the reporters that write line by line.
type changeTracker struct {
	last       Rollout
	reportedAt time.Time // When something was last reported.
}

// next returns the changes since the last snapshot. After a minute without changes, it returns the progress
// of the running groups.
func (f *changeTracker) next(r Rollout) []change {
	found := changes(f.last, r)
	if f.reportedAt.IsZero() {
		f.reportedAt = r.At
	}
	if len(found) == 0 && r.At.Sub(f.reportedAt) >= heartbeat {
		found = heartbeats(r)
	}
	f.last = snapshot(r)
	if len(found) > 0 {
		f.reportedAt = r.At
	}
	return found
}

// final returns the last changes, without the outcomes, which are reported in detail.
func (f *changeTracker) final(r Rollout) []change {
	return slices.DeleteFunc(changes(f.last, r), func(c change) bool { return c.kind == kindOutcome })
}

// snapshot returns a copy that does not share instances with r.
func snapshot(r Rollout) Rollout {
	r.Groups = slices.Clone(r.Groups)
	for n := range r.Groups {
		r.Groups[n].Instances = slices.Clone(r.Groups[n].Instances)
	}
	return r
}

// heartbeats returns the progress of each running group, and of its drains.
func heartbeats(r Rollout) []change {
	var all []change
	for _, g := range r.Groups {
		if g.Outcome != "" || g.Phase == Queued || g.Phase == "" {
			continue
		}
		all = append(all, change{
			at: r.At, group: g, kind: kindProgress, level: refresh.OK,
			text: joinNonEmpty("; ", g.progress(), g.counts(), g.Reason, g.drainProgress()),
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
	slices.SortStableFunc(draining, blockedFirst)
	var words []string
	for _, i := range draining[:min(len(draining), maxDrains)] {
		words = append(words, fmt.Sprintf("%s (node %s): %s", i.ID, i.nodeName(), i.drainMessage()))
	}
	if more := len(draining) - maxDrains; more > 0 {
		words = append(words, fmt.Sprintf("and %s more", text.Count(more, "draining node")))
	}
	return joinNonEmpty("; ", words...)
}
