package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// The formats.
const (
	FormatAuto   = "auto"   // A view that redraws itself on a terminal, else text.
	FormatText   = "text"   // A line for each change.
	FormatJSON   = "json"   // A document for each answer.
	FormatNDJSON = "ndjson" // A JSON object on each line, for each change.
)

// Options say where and how a rollout is told of.
type Options struct {
	Format   string // One of the formats; empty is FormatAuto.
	Out      io.Writer
	Terminal bool                    // Out is a terminal that understands control sequences.
	Size     func() (cols, rows int) // Of that terminal. What is not known is 0; nil is 80 columns and 24 rows.
	Color    bool                    // Colours may be used there. Who fills this in honours NO_COLOR.
	GitHub   bool                    // Text is written with the workflow commands of GitHub Actions.
}

// New returns a Reporter of the format. It never writes a control character to what is no terminal. Whether
// all could be written is told by Err.
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
	return fmt.Errorf("there is no format %q: it is %s, %s, %s or %s",
		format, FormatAuto, FormatText, FormatJSON, FormatNDJSON)
}

// Err returns the first error that the Reporter had writing, nil for one that had none or does not keep it.
func Err(r Reporter) error {
	if keeper, ok := r.(interface{ Err() error }); ok {
		return keeper.Err()
	}
	return nil
}

// sink writes until that fails, and keeps the error.
type sink struct {
	out io.Writer
	err error
}

func (s *sink) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, text)
	}
}

// lines writes each of the lines, without control characters of its content.
func (s *sink) lines(lines []line, colours bool) {
	for _, l := range lines {
		s.write(l.clean().render(colours) + "\n")
	}
}

// Err returns the first error of writing. After it nothing more was written.
func (s *sink) Err() error { return s.err }

// heartbeat is how long nothing may be told before what is known is told again.
const heartbeat = time.Minute

// follower tells what is new from snapshot to snapshot, for the reporters that write it down line by line.
type follower struct {
	last Rollout
	told time.Time // When there was something to tell.
}

// next returns what is new. When there was nothing for a minute, it is how far the groups are that are under
// way.
func (f *follower) next(r Rollout) []change {
	found := changes(f.last, r)
	if f.told.IsZero() {
		f.told = r.At
	}
	if len(found) == 0 && r.At.Sub(f.told) >= heartbeat {
		found = beats(r)
	}
	f.last = snapshot(r)
	if len(found) > 0 {
		f.told = r.At
	}
	return found
}

// final returns what is new at the end, but for the outcomes, which are about to be told at length.
func (f *follower) final(r Rollout) []change {
	return slices.DeleteFunc(changes(f.last, r), func(c change) bool { return c.kind == kindOutcome })
}

// snapshot is a copy that stays as it is when its origin is changed in place.
func snapshot(r Rollout) Rollout {
	r.Groups = slices.Clone(r.Groups)
	for n := range r.Groups {
		r.Groups[n].Instances = slices.Clone(r.Groups[n].Instances)
	}
	return r
}

// beats says how far each group is that is under way, and what its drains wait for.
func beats(r Rollout) []change {
	var all []change
	for _, g := range r.Groups {
		if g.Outcome != "" || g.Phase == Queued || g.Phase == "" {
			continue
		}
		all = append(all, change{
			at: r.At, group: g, kind: kindProgress, level: refresh.OK,
			text: joined("; ", g.progress(), g.counts(), g.Reason, g.holdUps()),
		})
	}
	return all
}

// mostHoldUps is how many drains are named on one line.
const mostHoldUps = 3

// holdUps says of the nodes that are draining how far they are: of many, the blocked ones, and how many
// others.
func (g Group) holdUps() string {
	draining := g.find(func(i Instance) bool { return i.draining() && i.drain() != "" })
	slices.SortStableFunc(draining, blockedFirst)
	var words []string
	for _, i := range draining[:min(len(draining), mostHoldUps)] {
		words = append(words, fmt.Sprintf("%s (node %s): %s", i.ID, i.nodeName(), i.drain()))
	}
	if more := len(draining) - mostHoldUps; more > 0 {
		words = append(words, fmt.Sprintf("and %s more", count(more, "draining node")))
	}
	return joined("; ", words...)
}
