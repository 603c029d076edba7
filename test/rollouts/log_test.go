package rollouts

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// log is what has happened.
type log struct {
	mu    sync.Mutex
	lines []line
}

type line struct {
	at        time.Time
	who, text string
}

// note adds a line to the log.
func (w *world) note(who, format string, args ...any) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.lines = append(w.log.lines, line{time.Now(), who, fmt.Sprintf(format, args...)})
}

// format writes lines with the time since the world began.
func format(lines []line, began time.Time) string {
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%12v %-10s %s\n", l.at.Sub(began).Round(time.Millisecond), l.who, l.text)
	}
	return out.String()
}
