package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen writes lines and, on a terminal, a status line below them. Elsewhere it writes neither a status
// line nor control characters.
type screen struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	colors   bool
	width    func() int
	bottom   string // The status line.
}

const (
	defaultWidth = 100
	clearLine    = "\r\x1b[K"
)

func newScreen(f *os.File) *screen {
	s := &screen{out: f, width: func() int { return defaultWidth }}
	s.terminal = term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	s.colors = s.terminal && os.Getenv("NO_COLOR") == ""
	if s.terminal {
		s.width = func() int {
			if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
				return width
			}
			return defaultWidth
		}
	}
	return s
}

// record makes the screen a terminal with colors and the default width, and writes what it shows to w too.
func (s *screen) record(w io.Writer) {
	s.terminal, s.colors, s.width = true, true, func() int { return defaultWidth }
	s.out = io.MultiWriter(s.out, newRecorder(w))
}

// line writes a line.
func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...) + "\n"
	if s.bottom != "" {
		text = clearLine + text + s.bottom
	}
	_, _ = io.WriteString(s.out, text)
}

// status redraws the status line; an empty text removes it.
func (s *screen) status(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal || text == s.bottom {
		return
	}
	s.bottom = text
	_, _ = io.WriteString(s.out, clearLine+text)
}

func (s *screen) paint(code, text string) string {
	if !s.colors {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) red(text string) string    { return s.paint("31", text) }
func (s *screen) green(text string) string  { return s.paint("32", text) }
func (s *screen) yellow(text string) string { return s.paint("33", text) }
func (s *screen) bold(text string) string   { return s.paint("1", text) }
func (s *screen) faint(text string) string  { return s.paint("2", text) }

// bar draws how much of total is done and how much is in progress, in width cells.
func (s *screen) bar(done, inProgress, total, width int) string {
	if total <= 0 {
		return strings.Repeat("░", width)
	}
	full := min(done*width/total, width)
	half := min((done+inProgress)*width/total, width) - full
	return s.green(strings.Repeat("█", full)) + s.yellow(strings.Repeat("▒", half)) +
		s.faint(strings.Repeat("░", width-full-half))
}
