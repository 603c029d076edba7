package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// errRace is the error of a process in which the race detector has found a data race.
var errRace = errors.New("the race detector has found a data race")

// Log is everything that a process has written. Its methods may be called from several goroutines.
type Log struct {
	ended chan struct{}    // Closed when the process has exited and its output has been read.
	state *os.ProcessState // How it exited; valid after ended.

	mu     sync.Mutex
	output bytes.Buffer
	parsed int    // Bytes of output that are in lines.
	lines  []Line // The complete lines.
	more   chan struct{}
}

// Line is a line of output: a JSON object, as the agent logs it and the trigger writes it with -o ndjson. A
// line that is not a JSON object has the message "not JSON" and the field text with the line.
type Line map[string]any

// Text returns a field that is a string, or "".
func (l Line) Text(key string) string {
	s, _ := l[key].(string)
	return s
}

// Matches reports whether the line has the message and the fields, which are given as pairs.
func (l Line) Matches(message string, fields ...string) bool {
	if l.Text("message") != message {
		return false
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fmt.Sprint(l[fields[i]]) != fields[i+1] {
			return false
		}
	}
	return true
}

// Write collects output.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.output.Write(text)
	l.parse()
	close(l.more)
	l.more = make(chan struct{})
	return len(text), nil
}

// parse reads the lines that are complete. It needs mu.
func (l *Log) parse() {
	for {
		rest := l.output.Bytes()[l.parsed:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return
		}
		var line Line
		if json.Unmarshal(rest[:end], &line) != nil || line == nil {
			line = Line{"message": "not JSON", "text": string(rest[:end])}
		}
		l.lines, l.parsed = append(l.lines, line), l.parsed+end+1
	}
}

// Output returns everything that the process has written so far.
func (l *Log) Output() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.output.String()
}

// Lines returns the complete lines that the process has written so far.
func (l *Log) Lines() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.lines)
}

// Count returns how many lines match.
func (l *Log) Count(message string, fields ...string) (n int) {
	for _, line := range l.Lines() {
		if line.Matches(message, fields...) {
			n++
		}
	}
	return n
}

// WaitLine waits for the n-th line that matches, and returns it.
func (l *Log) WaitLine(
	ctx context.Context, n int, message string, fields ...string,
) (found Line, err error) {
	seen, count := 0, 0
	err = l.wait(ctx, func() bool {
		for _, line := range l.lines[seen:] {
			if seen++; line.Matches(message, fields...) {
				if count++; count == n {
					found = line
					return true
				}
			}
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the log line %q %q: it was written %d times, not %d: %w",
			message, fields, count, n, err)
	}
	return found, nil
}

// WaitOutput waits until what the process has written matches.
func (l *Log) WaitOutput(ctx context.Context, wanted *regexp.Regexp) error {
	err := l.wait(ctx, func() bool { return wanted.Match(l.output.Bytes()) })
	if err != nil {
		return fmt.Errorf("wait for the output %s: %w", wanted, err)
	}
	return nil
}

// wait calls done, with mu held, at once and after each write until it returns true.
func (l *Log) wait(ctx context.Context, done func() bool) error {
	for ended := false; ; {
		l.mu.Lock()
		ok, more := done(), l.more
		l.mu.Unlock()
		switch {
		case ok:
			return nil
		case ended:
			return fmt.Errorf("the process has exited: %v", l.state)
		}
		select {
		case <-more:
		case <-l.ended: // All output has been read by now, and is checked once more.
			ended = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Stream returns a channel with every line of output, starting with the first, until ctx ends. It is closed when the
// process has exited, and not when ctx ends: a reader would take that for the exit of the process.
func (l *Log) Stream(ctx context.Context) <-chan Line {
	out := make(chan Line)
	go func() {
		for n := 0; l.wait(ctx, func() bool { return n < len(l.lines) }) == nil; n++ {
			select {
			case out <- l.Lines()[n]:
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() == nil {
			close(out)
		}
	}()
	return out
}

// Race returns an error if the process was built with the race detector, which has found a data race in it.
func (l *Log) Race() error {
	if _, report, found := strings.Cut(l.Output(), "DATA RACE"); found {
		return fmt.Errorf("%w: %s", errRace, report)
	}
	return nil
}
