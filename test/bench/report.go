package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// document is the report for programs.
type document struct {
	At      time.Time `json:"at"`
	CPUs    int       `json:"cpus"`
	Scale   float64   `json:"scale"`
	Shown   []figures `json:"shown"` // The median round of each contestant, with its ratio to the limit.
	Targets []target  `json:"targets"`
	Rounds  []figures `json:"rounds"`

	Writes []writeFigures `json:"writes"` // Of all rounds.
}

// report writes the tables, and the file of -json. Without figures it writes nothing.
func (b *bench) report(to io.Writer) error {
	if len(b.figures)+len(b.writes) == 0 {
		return nil
	}
	d := document{
		At: b.startedAt.UTC(), CPUs: runtime.NumCPU(), Scale: b.scale,
		Shown: medianRounds(b.figures), Rounds: b.figures, Writes: b.writes,
	}
	d.Targets = append(compare(d.Shown), compareWrites(b.writes)...)
	if _, err := io.WriteString(to, d.text()); err != nil {
		return err
	}
	if b.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.json, append(text, '\n'), 0o600)
}

// text is the report for people.
func (d document) text() string {
	var s strings.Builder
	_, _ = fmt.Fprintf(&s, "On %d CPUs", d.CPUs)
	if d.Scale < 1 {
		_, _ = fmt.Fprintf(&s, ", with only %g of the nodes: the targets do not apply", d.Scale)
	}
	s.WriteString(".\n\n")
	if len(d.Shown) > 0 {
		grid(&s, mainTable(d.Shown))
		s.WriteString("\nRequests per pod, by kind:\n\n")
		grid(&s, kindTable(d.Shown))
		s.WriteString("\n")
	}
	if len(d.Writes) > 0 {
		s.WriteString("Writes to Redis during all drains:\n\n")
		grid(&s, writeTable(d.Writes))
		s.WriteString("\n")
	}
	s.WriteString("Targets of the agent, each in its worst scenario:\n\n")
	grid(&s, targetTable(d.Targets))
	return s.String()
}

// grid writes rows in columns.
func grid(to io.Writer, rows [][]string) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t "))
	}
	_ = w.Flush() // A strings.Builder never fails.
}

// mainTable has a row for each contestant in each scenario.
func mainTable(all []figures) [][]string {
	rows := [][]string{{
		"scenario", "contestant", "pods", "makespan", "x limit", "done", "marked", "req/pod", "evict/pod",
		"refused", "twice", "release ms", "CPU s", "ms/pod", "RSS MiB", "sum MiB", "AWS calls",
	}}
	for _, f := range all {
		row := []string{
			f.Scenario, f.Contestant, fmt.Sprint(f.Pods), seconds(f.Makespan), positive("%.2f", f.ToLimit),
			seconds(f.Finished), fmt.Sprintf("%.2f s", f.Marked), fmt.Sprintf("%.2f", f.RequestsPerPod),
			fmt.Sprintf("%.2f", f.EvictionsPerPod), refused(f), fmt.Sprint(f.Twice), releaseCell(f),
			positive("%.2f", f.CPU), positive("%.1f", f.CPUPerPod), positive("%.1f", f.PeakMiB), "-",
			callsCell(f),
		}
		if f.SumMiB > f.PeakMiB {
			row[len(row)-2] = fmt.Sprintf("%.0f", f.SumMiB)
		}
		rows = append(rows, row)
	}
	return rows
}

func seconds(s float64) string { return fmt.Sprintf("%.1f s", s) }

func refused(f figures) string {
	const percent = 100
	return fmt.Sprintf("%d (%.0f %%)", f.Refused, f.RefusedShare*percent)
}

func releaseCell(f figures) string {
	if f.Releases == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f, max %.0f", f.ReleaseMedian, f.ReleaseMax)
}

// callsCell is how many calls there were to Auto Scaling, and how many a second at most after the first heartbeats.
func callsCell(f figures) string {
	if f.Calls == 0 {
		return "-"
	}
	return fmt.Sprintf("%d, max %.0f/s", f.Calls, f.CallsPerSecond)
}

// positive formats a figure that is 0 only if it is unknown.
func positive(format string, value float64) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

// kindTable lists the requests by kind, the most frequent first.
func kindTable(all []figures) [][]string {
	rows := [][]string{{"scenario", "contestant", "requests"}}
	for _, f := range all {
		kinds := slices.SortedFunc(maps.Keys(f.ByKind), func(a, b string) int {
			return cmp.Or(f.ByKind[b]-f.ByKind[a], strings.Compare(a, b))
		})
		var cells []string
		for _, k := range kinds {
			cells = append(cells, fmt.Sprintf("%s %.3g", k, share(f.ByKind[k], f.Pods)))
		}
		rows = append(rows, []string{f.Scenario, f.Contestant, strings.Join(cells, ", ")})
	}
	return rows
}

func targetTable(targets []target) [][]string {
	rows := [][]string{{"", "target", "want", "got", "in"}}
	for _, t := range targets {
		state := "met"
		switch {
		case !t.Known:
			state = "-"
		case !t.Holds:
			state = "MISSED"
		}
		rows = append(rows, []string{state, t.Name, t.Want, t.Got, t.Where})
	}
	return rows
}
