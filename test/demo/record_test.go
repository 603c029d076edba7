package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRecord: the recording has what a terminal shows.
func TestRecord(t *testing.T) {
	var out, recorded strings.Builder
	s := plain(&out)
	s.record(&recorded)
	s.line("one %s", s.green("<ok>"))
	s.status("bar")
	if got := output(t, recorded.String()); got != out.String() || !strings.Contains(got, "\x1b[32m<ok>") {
		t.Errorf("recorded %q, want %q", got, out.String())
	}
	if first, _, _ := strings.Cut(recorded.String(), "\n"); !strings.Contains(first, `"version":2,"width":100`) {
		t.Errorf("the recording begins with %s", first)
	}
}

// TestRecordingIsCurrent: demo-replay shows what the demo prints today, as far as that is known without a control plane.
// TestDemo compares all lines.
func TestRecordingIsCurrent(t *testing.T) {
	lines := recordedLines(t)
	for line := range strings.SplitSeq(strings.TrimSpace(preface), "\n") {
		if !slices.Contains(lines, template(line)) {
			t.Errorf("the recording lacks %q: run make demo-record", line)
		}
	}
	text := strings.Join(lines, "\n")
	for _, row := range slices.Concat(goodResult().rows(), goodResult().measures()) {
		if !strings.Contains(text, template(row.what)) {
			t.Errorf("the recording lacks the row %q: run make demo-record", row.what)
		}
	}
	if n := strings.Count(text, "\nok "); n != len(goodResult().rows()) {
		t.Errorf("the recording has %d rows with ok, want %d: run make demo-record", n, len(goodResult().rows()))
	}
}

// TestRecordedMetricsAreCurrent: the recorded metrics are those of the agent today. TestRecordedNode compares their labels.
func TestRecordedMetricsAreCurrent(t *testing.T) {
	recorded := read(t, "replay/metrics.txt")
	row := regexp.MustCompile("(?m)^\\| `(node_drainer_[a-z_]+)`")
	all := row.FindAllStringSubmatch(read(t, "../../docs/reference.md"), -1)
	for _, metric := range all {
		isOfWatch := strings.HasPrefix(metric[1], "node_drainer_watch_")
		if !isOfWatch && !regexp.MustCompile(`(?m)^ *`+metric[1]+`(_bucket)?[{ ]`).MatchString(recorded) {
			t.Errorf("the recording lacks %s: run make demo-record", metric[1])
		}
	}
	if len(all) == 0 {
		t.Error("docs/reference.md has no metrics")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// recordedLines returns the templates of the lines that stay on the screen.
func recordedLines(t *testing.T) []string {
	t.Helper()
	return templates(output(t, read(t, "replay/recording.cast")))
}

// output returns the output in an asciicast.
func output(t *testing.T, cast string) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(cast) {
		event := []any{}
		if strings.HasPrefix(line, "[") {
			if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 {
				t.Fatalf("%s: %v", line, err)
			}
			all.WriteString(event[2].(string))
		}
	}
	return all.String()
}

// templates returns the templates of the lines of an output.
func templates(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		line = line[strings.LastIndex(line, "\r")+1:] // What was there before has been removed.
		if line = template(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// template returns a line without what differs from run to run: numbers, instance IDs, bars, and spaces to align them;
// and without colors.
func template(line string) string {
	for _, rule := range []struct{ pattern, by string }{
		{"\x1b\\[[0-9;]*[A-Za-z]", ""}, {"\\bi-[0-9a-f]+", "i-0"}, {"[█▒░]+", "▒"}, {"[0-9]+", "0"}, {" +", " "},
	} {
		line = regexp.MustCompile(rule.pattern).ReplaceAllString(line, rule.by)
	}
	return strings.TrimSpace(line)
}
