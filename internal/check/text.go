package check

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
)

// columns are the widths of the status and of the check in the text.
const columns = "%-12s %-13s %s\n"

// WriteText writes a line for each result, another with its fix, and a line with the numbers.
func WriteText(w io.Writer, results []Result) error {
	var b strings.Builder
	for _, r := range results {
		_, _ = fmt.Fprintf(&b, columns, r.Status, r.Check, text.Clean(r.Found))
		if r.Fix != "" {
			_, _ = fmt.Fprintf(&b, columns, "", "", "fix: "+text.Clean(r.Fix))
		}
	}
	_, _ = fmt.Fprintf(&b, "\n%s\n", Summary(results))
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary returns how many checks ended with which status.
func Summary(results []Result) string {
	return fmt.Sprintf("%d failed, %s, %d not checked, %d ok", Count(results, Failed),
		text.Count(Count(results, Warning), "warning"), Count(results, NotChecked), Count(results, OK))
}

// WriteJSON writes the results, and whether none failed, as one JSON object.
func WriteJSON(w io.Writer, results []Result) error {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // && is part of commands
	encoder.SetIndent("", "  ")
	err := encoder.Encode(struct {
		OK     bool     `json:"ok"`
		Checks []Result `json:"checks"`
	}{Count(results, Failed) == 0, results})
	if err == nil {
		_, err = io.WriteString(w, text.CleanJSON(b.String()))
	}
	return err
}
