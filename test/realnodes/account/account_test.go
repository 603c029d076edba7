package account

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run ^TestPicture$ . -update

var update = flag.Bool("update", false, "write docs/pictures/zero-downtime.svg again")

// TestPicture: the picture of the pages shows the recorded runs.
func TestPicture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rollouts.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []Run
	if err := json.Unmarshal(text, &runs); err != nil {
		t.Fatal(err)
	}
	const file = "../../../docs/pictures/zero-downtime.svg"
	got := SVG("Requests each second while all nodes are replaced", runs)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != got {
		t.Errorf("go generate . in test/realnodes/account writes %s again: %v", file, err)
	}
	for _, r := range runs {
		if len(r.Left) != 8 || len(r.Sent) != len(r.Failed) {
			t.Errorf("%s is no whole run: %d machines ended in %d seconds", r.Title, len(r.Left), len(r.Sent))
		}
	}
}

// TestSVG: each run has a panel with its numbers; a second with failed requests has a bar, and a machine that ended a mark.
func TestSVG(t *testing.T) {
	t.Parallel()
	runs := []Run{
		{Title: "A & B", Sent: []int{50, 50, 3}, Failed: []int{0, 20, 1}, Left: []float64{0.5, 2}},
		{Title: "C", Sent: []int{50}, Failed: []int{0}},
	}
	got := SVG("title", runs)
	counts := []int{
		strings.Count(got, `<rect class="p"`), strings.Count(got, `<rect class="bad"`), strings.Count(got, `<line class="node"`),
	}
	if want := []int{2, 2 + 1, 2 + 1}; !slices.Equal(counts, want) { // The legend has one of each.
		t.Errorf("got %d panels, bars and marks, want %d", counts, want)
	}
	for _, want := range []string{
		"A &amp; B: 21 of 103 requests failed", "C: 0 of 50 requests failed", ">3 s<", `points="180.7,88.0 446.0,108.8"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
