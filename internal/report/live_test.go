package report

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/term"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func fixedSize(cols, rows int) func() (int, int) { return func() (int, int) { return cols, rows } }

func rendered(lines []line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, l.render(false))
	}
	return all
}

// TestLiveGolden compares the terminal after each snapshot.
func TestLiveGolden(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {200, 50}, {80, 10}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			screen := newTerminal(size[0], size[1])
			r := Live(crlf{screen}, fixedSize(size[0], size[1]), true)
			var all []string
			for n, moment := range rollouts() {
				if n == len(rollouts())-1 {
					r.End(moment)
				} else {
					r.Show(moment)
				}
				all = append(all, fmt.Sprintf("---- %v", moment.At.Sub(moment.Started)))
				all = append(all, screen.screen()...)
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
			Live(&out, fixedSize(80, 24), colors).Show(rollouts()[5])
			golden(t, "live-"+name, strings.ReplaceAll(strings.ReplaceAll(out.String(), "\x1b", "␛"), "\r\n", "\n"))
		})
	}
}

func TestLivePlanGolden(t *testing.T) {
	t.Parallel()
	screen := newTerminal(80, 60)
	if err := Live(crlf{screen}, fixedSize(80, 60), false).Plan(plans()); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.live-80", strings.Join(screen.screen(), "\n")+"\n")
	if len(screen.faults) > 0 {
		t.Error(screen.faults)
	}
}

// TestLiveOnAPseudoTerminal: at the end the screen shows the last frame and the outcomes. No line was wrapped or drawn
// twice, and the cursor is visible.
func TestLiveOnAPseudoTerminal(t *testing.T) {
	t.Parallel()
	for _, size := range []pty.Winsize{{Cols: 80, Rows: 24}, {Cols: 200, Rows: 40}} {
		t.Run(fmt.Sprintf("%dx%d", size.Cols, size.Rows), func(t *testing.T) {
			t.Parallel()
			ours, theirs, err := pty.Open()
			if err != nil {
				t.Skip("no pseudo-terminal here: ", err)
			}
			defer func() { _ = ours.Close() }()
			if err := pty.Setsize(ours, &size); err != nil {
				t.Fatal(err)
			}
			r, err := New(Options{Out: theirs, Terminal: term.IsTerminal(int(theirs.Fd())), Color: true, Size: func() (int, int) {
				cols, rows, err := term.GetSize(int(theirs.Fd()))
				if err != nil {
					t.Error(err)
				}
				return cols, rows
			}})
			if err != nil {
				t.Fatal(err)
			}
			seen := make(chan string)
			go func() {
				all, err := io.ReadAll(ours)
				if err != nil && !errors.Is(err, syscall.EIO) { // Linux returns EIO when the other end is closed.
					t.Error(err)
				}
				seen <- string(all)
			}()
			report(r)
			if err := Err(r); err != nil {
				t.Error(err)
			}
			_ = theirs.Close()
			screen := newTerminal(int(size.Cols), int(size.Rows))
			_, _ = screen.Write([]byte(<-seen))

			last := rollouts()[len(rollouts())-1]
			want := rendered(append(frame(last, nil, screen.cols, screen.rows), endLines(last, screen.cols-1)...))
			if diff := cmp.Diff(want, screen.screen()); diff != "" {
				t.Errorf("the screen (-want +got):\n%s", diff)
			}
			if len(screen.faults) > 0 || len(screen.scrolled) > 0 || screen.hidden || !screen.wraps {
				t.Errorf("faults %q, scrolled %q, cursor hidden: %v, wraps: %v",
					screen.faults, screen.scrolled, screen.hidden, screen.wraps)
			}
		})
	}
}

// TestCursorAfterEachFrame: it is visible and at the left, in case the program is killed.
func TestCursorAfterEachFrame(t *testing.T) {
	t.Parallel()
	screen := newTerminal(80, 24)
	r := Live(screen, fixedSize(80, 24), true)
	for _, moment := range rollouts() {
		r.Show(moment)
		if screen.hidden || !screen.wraps || screen.col != 0 {
			t.Fatalf("cursor hidden: %v, wraps: %v, column %d", screen.hidden, screen.wraps, screen.col)
		}
	}
}

func TestLiveHostileText(t *testing.T) {
	t.Parallel()
	rollout, plans := hostile()
	screen := newTerminal(80, 60)
	r := Live(crlf{screen}, fixedSize(80, 60), true)
	if err := r.Plan(plans[:1]); err != nil {
		t.Fatal(err)
	}
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
		lines := frame(r, changes(Rollout{}, r), cols, rows)
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
	got := rendered(frame(r, changes(Rollout{}, r), 80, 24))
	golden(t, "live-20-groups", strings.Join(got, "\n")+"\n")
	for _, want := range []string{"group-18", "group-06", "An alarm went off", "ip-10-0-1-1", "… and 13 groups: 6 done, 7 queued"} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestHeightAfterAResize: a terminal that becomes narrower wraps the last frame, and the next one replaces all of it.
func TestHeightAfterAResize(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		widths []int
		cols   int
		want   int
	}{
		"no lines":                        {nil, 80, 0},
		"as wide as before":               {[]int{79, 10, 0}, 80, 3},
		"half as wide":                    {[]int{79, 10, 0}, 40, 4},
		"a full line":                     {[]int{40}, 40, 1},
		"a third as wide, all are longer": {[]int{79, 60, 30}, 27, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := height(row.widths, row.cols); got != row.want {
				t.Errorf("%d, want %d", got, row.want)
			}
		})
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		gone, total int
		going       int
		want        string
	}{
		"no old instances":   {0, 0, 0, "░░░░░░░░░░"},
		"none replaced":      {0, 5, 0, "░░░░░░░░░░"},
		"some terminating":   {0, 5, 2, "▒▒▒▒░░░░░░"},
		"some replaced":      {2, 5, 1, "████▒▒░░░░"},
		"all":                {5, 5, 0, "██████████"},
		"more than expected": {6, 5, 2, "██████████"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := Group{Gone: row.gone, Total: row.total, Instances: oldInstances("Terminating", slices.Repeat([]int{1}, row.going)...)}
			if got := bar(g, 10).render(false); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}
