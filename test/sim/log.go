package sim

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// log has what happened in a world: a line for each log line of an agent, step, fault and end of a lifecycle action.
type log struct {
	seed  uint64
	began time.Time
	mu    sync.Mutex
	lines []line
}

// line is one line of a log.
type line struct {
	at   time.Time
	who  string
	text string
}

// mostLines is far more than a world logs unless something is repeated without end, at the same moment.
const mostLines = 1_000_000

func (l *log) add(who, message string, fields ...any) {
	var text strings.Builder
	text.WriteString(message)
	for i := 0; i+1 < len(fields); i += 2 {
		fmt.Fprintf(&text, " %v=%v", fields[i], fields[i+1])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == mostLines {
		panic(fmt.Sprintf("world %d logs without end: %s: %v", l.seed, who, text.String()))
	}
	l.lines = append(l.lines, line{time.Now(), who, text.String()})
}

// writer returns what an agent writes its log to.
func (l *log) writer(who string) io.Writer { return logWriter{l, who} }

type logWriter struct {
	*log
	who string
}

// Write adds a line.
func (w logWriter) Write(p []byte) (int, error) {
	w.add(w.who, strings.TrimSpace(string(p)))
	return len(p), nil
}

// all returns the lines so far.
func (l *log) all() []line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]line(nil), l.lines...)
}
