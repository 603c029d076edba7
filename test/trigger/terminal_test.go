package trigger

import (
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// terminalRun is a run of the trigger on a terminal. What is written to keys is typed.
type terminalRun struct {
	*run
	keys *os.File
	cols int
}

// onTerminal runs the trigger for the group on a terminal of so many columns.
func (a *account) onTerminal(cols int, env []string, args ...string) *terminalRun {
	a.t.Helper()
	c := &terminalRun{cols: cols, run: a.newRun(append([]string{"TERM=xterm-256color"}, env...), args...)}
	c.Cmd.Stdout, c.Cmd.Stderr = nil, nil // the terminal
	keys, err := pty.StartWithSize(c.Cmd, &pty.Winsize{Rows: 24, Cols: uint16(cols)})
	a.must(err)
	c.keys = keys
	a.t.Cleanup(func() { _ = keys.Close() })
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(c.Process, keys) // until no process has the terminal open
	}()
	c.Attend(func() { <-read })
	c.killAtEnd()
	return c
}

func (c *terminalRun) press(key string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(key); err != nil {
		c.t.Fatal(err)
	}
}

// Keys of a terminal in its usual mode.
const (
	ctrlC = "\x03"
	ctrlS = "\x13" // stops the output
	ctrlQ = "\x11" // starts it again
)

// assertRestored checks that the terminal is left as it was found, and that no line was wider than it.
func (c *terminalRun) assertRestored() {
	c.t.Helper()
	out := c.Output()
	for _, mode := range []string{"?25", "?7"} { // The cursor is shown, and long lines are wrapped.
		if strings.LastIndex(out, "\x1b["+mode+"l") > strings.LastIndex(out, "\x1b["+mode+"h") {
			c.t.Errorf("the mode %s of the terminal is left off", mode)
		}
	}
	if colors := regexp.MustCompile("\x1b\\[[0-9;]*m").FindAllString(out, -1); len(colors) > 0 {
		if last := colors[len(colors)-1]; last != "\x1b[0m" && last != "\x1b[m" {
			c.t.Errorf("the terminal is left in the color %q", last)
		}
	}
	if strings.Contains(out, "\x1b[?1049h") {
		c.t.Error("the trigger used the alternate screen, so its output disappears at the end")
	}
	if !strings.HasSuffix(out, "\n") {
		c.t.Error("the last line does not end, so the prompt stands behind it")
	}
	for text := range strings.Lines(regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]").ReplaceAllString(out, "")) {
		if n := utf8.RuneCountInString(strings.Trim(text, "\r\n")); n > c.cols {
			c.t.Errorf("a line has %d characters, and the terminal %d columns: %s", n, c.cols, text)
		}
	}
}

// TestTerminal: a rollout has a live view on a terminal, unless the environment or a flag says otherwise.
func TestTerminal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cols  int
		env   []string
		args  []string
		live  bool
		plain bool // No control sequence is written.
	}{
		"80 columns":       {cols: 80, live: true},
		"marked unhealthy": {cols: 30, args: []string{"--mode", "unhealthy"}, live: true},
		"a plan":           {cols: 80, args: []string{"plan"}},
		"a dumb terminal":  {cols: 1000, env: []string{"TERM=dumb"}, plain: true},
		"in CI":            {cols: 1000, env: []string{"CI=true"}, plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newAccount(t, launchFirst(2)).onTerminal(tt.cols, tt.env, tt.args...)
			c.waitExit(0)
			c.assertRestored()
			if bar := strings.Contains(c.Output(), "\u2588"); bar != tt.live {
				t.Errorf("there is a bar: %v, want %v", bar, tt.live)
			}
			if tt.plain && strings.Contains(c.Output(), "\x1b") {
				t.Error("the trigger wrote a control sequence")
			}
		})
	}
}

// TestTerminalIsRestored: the first signal asks the trigger to stop, and the second one ends it. Both restore the
// terminal.
func TestTerminalIsRestored(t *testing.T) {
	hangups := make(chan os.Signal, 1) // Without this a run of the tests under nohup would have the trigger ignore SIGHUP.
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	for name, tt := range map[string]struct {
		says string
		stop func(a *account, c *terminalRun)
	}{
		"Ctrl-C": {`interrupted`, func(_ *account, c *terminalRun) { c.press(ctrlC) }},
		"Ctrl-C twice, during a slow call": {"", func(a *account, c *terminalRun) {
			a.Inject(awsim.Fault{Action: "CancelInstanceRefresh", Latency: time.Hour})
			c.press(ctrlC)
			a.must(a.WaitRequests(waits(t), "autoscaling", "CancelInstanceRefresh", 1))
			c.press(ctrlC)
		}},
		"SIGTERM": {`interrupted`, func(_ *account, c *terminalRun) { c.Signal(syscall.SIGTERM) }},
		"SIGHUP":  {`interrupted`, func(_ *account, c *terminalRun) { c.Signal(syscall.SIGHUP) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, latest(4))
			a.holdLaunches()
			c := a.onTerminal(80, nil, "--on-interrupt", "cancel")
			c.waitOutput("InProgress")
			tt.stop(a, c)
			c.waitExit(130, tt.says)
			c.assertRestored()
		})
	}
}

// TestTerminalThatIsStopped: a trigger whose output is stopped by Ctrl-S exits nevertheless at the second signal.
func TestTerminalThatIsStopped(t *testing.T) {
	t.Parallel()
	a := newAccount(t, latest(4))
	a.holdLaunches()
	c := a.onTerminal(80, nil)
	c.waitOutput("InProgress")
	c.press(ctrlS)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} { // Two of one kind may be delivered as one.
		c.Signal(s)
	}
	select {
	case <-c.Ended():
	case <-time.After(time.Minute):
		t.Error("the trigger waits for the terminal")
		c.press(ctrlQ)
	}
	c.waitExit(130)
}
