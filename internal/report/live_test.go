package report

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/picture"
)

//go:generate go test -run ^TestPictures$ . -update

// onTerminal returns a live view on a simulated terminal.
func onTerminal(cols, rows int) (*terminal, Reporter) {
	screen := newTerminal(cols, rows)
	return screen, live(crlf{screen}, cols, rows, true)
}

func live(out io.Writer, cols, rows int, colors bool) Reporter {
	size := func() (int, int) { return cols, rows }
	return New(Options{Format: FormatAuto, Out: out, Terminal: true, Size: size, Color: colors})
}

func rendered(lines []line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, l.render(false))
	}
	return all
}

// TestLiveGolden compares the terminal after each snapshot. The cursor is visible and at the left then, in case the
// program is killed.
func TestLiveGolden(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {200, 50}, {80, 10}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			screen, r := onTerminal(size[0], size[1])
			var all []string
			for n, moment := range rollouts() {
				step(r, rollouts()[:n], moment)
				all = append(all, fmt.Sprintf("---- %v", moment.At.Sub(moment.Started)))
				all = append(all, screen.screen()...)
				if screen.hidden || !screen.wraps || screen.col != 0 {
					t.Fatalf("cursor hidden: %v, wraps: %v, column %d", screen.hidden, screen.wraps, screen.col)
				}
			}
			golden(t, fmt.Sprintf("live-%dx%d", size[0], size[1]), strings.Join(all, "\n")+"\n")
			if len(screen.faults) > 0 {
				t.Error(screen.faults)
			}
		})
	}
}

func TestLiveColors(t *testing.T) {
	t.Parallel()
	for name, colors := range map[string]bool{"colors": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			step(live(&out, 80, 24, colors), nil, rollouts()[5])
			golden(t, "live-"+name, strings.ReplaceAll(strings.ReplaceAll(out.String(), "\x1b", "␛"), "\r\n", "\n"))
		})
	}
}

// TestPictures: the pictures of the pages show what the trigger prints today.
func TestPictures(t *testing.T) {
	var rollout strings.Builder
	view := live(&rollout, 80, 24, true)
	for n, moment := range rollouts()[:6] {
		rollout.Reset()
		step(view, rollouts()[:n], moment)
	}
	screen, plan := onTerminal(120, 60)
	plan.Plan(plans(), 0)
	for name, text := range map[string]string{"rollout": rollout.String(), "plan": strings.Join(screen.screen(), "\n")} {
		title := map[string]string{"rollout": "The live view of a rollout", "plan": "A plan of the trigger"}[name]
		golden(t, filepath.Join("..", "..", "..", "docs", "pictures", name+".svg"), picture.SVG(title, text))
	}
}

func TestLivePlanGolden(t *testing.T) {
	t.Parallel()
	screen, r := onTerminal(80, 60)
	r.Plan(plans(), 0)
	golden(t, "plan.live-80", strings.Join(screen.screen(), "\n")+"\n")
	if len(screen.faults) > 0 {
		t.Error(screen.faults)
	}
}

func TestLiveHostileText(t *testing.T) {
	t.Parallel()
	rollout, plans := hostile()
	screen, r := onTerminal(80, 60)
	r.Plan(plans[:1], 0)
	for n, fault := range screen.faults {
		if !strings.Contains(fault, "does not fit") { // A word of a plan may be longer than a line: the terminal wraps it.
			t.Fatal(screen.faults[n:])
		}
	}
	screen.faults = nil
	r.Show(rollout)
	r.End(rollout)
	if len(screen.faults) > 0 {
		t.Error(screen.faults)
	}
}

// crlf converts line ends as the line discipline of a terminal does.
type crlf struct{ to io.Writer }

func (c crlf) Write(p []byte) (int, error) {
	_, err := c.to.Write([]byte(strings.ReplaceAll(strings.ReplaceAll(string(p), "\r\n", "\n"), "\n", "\r\n")))
	return len(p), err
}

// TestFrameFits: a frame never has more lines than the terminal, nor wider ones.
func TestFrameFits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		cols, rows := 1+rng.IntN(220), 1+rng.IntN(60)
		r := randomRollout(rng)
		lines := frame(r, begun(r), cols, rows)
		if len(lines) > max(rows-1, 1) {
			t.Fatalf("%d lines on %d rows", len(lines), rows)
		}
		for _, l := range lines {
			if l.width() > max(cols-1, 1) {
				t.Fatalf("%d cells in %d columns: %q", l.width(), cols, l.render(false))
			}
		}
	}
}

// begun returns what has happened until this first moment.
func begun(r Rollout) (all []Change) {
	for _, g := range r.Groups {
		for _, c := range Changes(Group{}, g, r.At) {
			if c.Text != "" {
				all = append(all, c)
			}
		}
	}
	return all
}

func randomRollout(rng *rand.Rand) Rollout {
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	r := Rollout{At: at(rng.IntN(9000)), Started: started}
	for n := range rng.IntN(30) {
		g := Group{
			Name: fmt.Sprintf("%s-%d", pick("workers", "日本語のグループ", strings.Repeat("long", 30)), n), Mode: refresh.ModeRefresh,
			Phase:  Phase(pick("queued", "replacing", "draining", "baking", "over")),
			Target: pick("", "launch template node (lt-1) version 7", strings.Repeat("漢字 ", 90)), Status: pick("", "InProgress"),
			Reason: pick("", "waiting", strings.Repeat("because ", 40)), Percent: rng.IntN(120) - 10, Gone: rng.IntN(9), Total: rng.IntN(9),
			Outcome: Outcome(pick("", "", "", "done", "failed")), Message: pick("", strings.Repeat("see ", 99)), Refresh: pick("", "1"),
		}
		for m := range rng.IntN(6) {
			i := Instance{ID: fmt.Sprintf("i-%d-%d", n, m), State: pick("InService", "Pending", "Terminating:Wait"), Old: rng.IntN(2) > 0}
			if rng.IntN(2) > 0 {
				i.Node = drainOf(pick("ip-10-0-1-1", strings.Repeat("node", 40)), pick("Blocked", "Draining"), strings.Repeat("pods 漢 ", rng.IntN(30)))
			}
			g.Instances = append(g.Instances, i)
		}
		r.Groups = append(r.Groups, g)
	}
	return r
}

func TestFrameOfManyGroups(t *testing.T) {
	t.Parallel()
	r := Rollout{At: at(61), Started: started}
	for n := range 20 {
		g := Group{Name: fmt.Sprintf("group-%02d", n), Mode: refresh.ModeRefresh, Phase: Queued, Total: 6}
		switch {
		case n < 6:
			g.Phase, g.Outcome, g.Gone, g.Percent = Finished, Done, 6, 100
		case n == 6:
			g.Phase, g.Outcome, g.Message = Finished, Failed, "An alarm went off."
		case n == 18:
			g.Phase, g.Status, g.Instances, g.Target = Replacing, "InProgress", oldInstances("Terminating:Wait", 1, 2, 3, 4, 5, 6), "version 7"
		}
		r.Groups = append(r.Groups, g)
	}
	got := rendered(frame(r, begun(r), 80, 24))
	golden(t, "live-20-groups", strings.Join(got, "\n")+"\n")
}

// TestHeightAfterAResize: a terminal that becomes narrower wraps the last frame, and the next one replaces all of it.
func TestHeightAfterAResize(t *testing.T) {
	t.Parallel()
	rows := func(cols int, widths ...int) string { return fmt.Sprint(height(widths, cols)) }
	texts{
		"no lines":                        {rows(80), "0"},
		"as wide as before":               {rows(80, 79, 10, 0), "3"},
		"half as wide":                    {rows(40, 79, 10, 0), "4"},
		"a full line":                     {rows(40, 40), "1"},
		"a third as wide, all are longer": {rows(27, 79, 60, 30), "8"},
	}.check(t)
}

func TestBar(t *testing.T) {
	t.Parallel()
	drawn := func(gone, going, total int) string {
		old := oldInstances("Terminating", slices.Repeat([]int{1}, going)...)
		return bar(Group{Gone: gone, Total: total, Instances: old}, 10).render(false)
	}
	texts{
		"no old instances":   {drawn(0, 0, 0), "░░░░░░░░░░"},
		"none replaced":      {drawn(0, 0, 5), "░░░░░░░░░░"},
		"some terminating":   {drawn(0, 2, 5), "▒▒▒▒░░░░░░"},
		"some replaced":      {drawn(2, 1, 5), "████▒▒░░░░"},
		"all":                {drawn(5, 0, 5), "██████████"},
		"more than expected": {drawn(6, 2, 5), "██████████"},
	}.check(t)
}
