//go:build e2e

package e2e

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

// console is a run of the trigger on a terminal, whose other end is keys.
type console struct {
	*triggering
	keys *os.File
	cols int
}

// onTerminal runs the trigger for the group on a terminal of so many columns, without a cluster.
func (a *amazon) onTerminal(cols int, env []string, args ...string) *console {
	a.t.Helper()
	c := &console{cols: cols, triggering: newTriggering(a.t, a.Server, append([]string{
		"TERM=xterm-256color", "TRIGGER_POLL_INTERVAL=200ms", "TRIGGER_NO_KUBERNETES=true",
		"TRIGGER_ALLOW=hook-timeout", "TRIGGER_ASG=" + group,
	}, env...), args...)}
	keys, err := pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 24, Cols: uint16(cols)})
	a.must(err)
	c.keys = keys
	a.t.Cleanup(func() { _ = keys.Close() })
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(c.triggering, keys) // until nobody has the terminal open any more
	}()
	c.await(func() { <-read })
	return c
}

// press types a key.
func (c *console) press(key string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(key); err != nil {
		c.t.Fatal(err)
	}
}

// Keys, as a terminal in its usual mode takes them.
const (
	ctrlC = "\x03"
	ctrlS = "\x13" // Nothing is written any more,
	ctrlQ = "\x11" // until this.
)

var sequences = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// assertSane holds if the terminal is left as it was found, and no line was wider than it.
func (c *console) assertSane() {
	c.t.Helper()
	out := c.output()
	for _, mode := range []string{"?25", "?7"} { // The cursor is shown, and long lines are wrapped.
		if strings.LastIndex(out, "\x1b["+mode+"l") > strings.LastIndex(out, "\x1b["+mode+"h") {
			c.t.Errorf("the mode %s of the terminal is left off", mode)
		}
	}
	if colours := regexp.MustCompile("\x1b\\[[0-9;]*m").FindAllString(out, -1); len(colours) > 0 {
		if last := colours[len(colours)-1]; last != "\x1b[0m" && last != "\x1b[m" {
			c.t.Errorf("the terminal is left in the colour %q", last)
		}
	}
	if strings.Contains(out, "\x1b[?1049h") {
		c.t.Error("the trigger took the alternate screen: what it told is gone with it")
	}
	if !strings.HasSuffix(out, "\n") {
		c.t.Error("the prompt would stand behind the last line")
	}
	for text := range strings.Lines(out) {
		text = strings.Trim(sequences.ReplaceAllString(text, ""), "\r\n")
		if n := utf8.RuneCountInString(text); n > c.cols {
			c.t.Errorf("a line has %d characters, and the terminal %d columns: %s", n, c.cols, text)
		}
	}
}

// TestTerminal: on a terminal there is a live view, and the terminal is as before when it is over.
func TestTerminal(t *testing.T) {
	for name, tt := range map[string]struct {
		cols int
		env  []string
		args []string
		live bool
		bare bool // No sequence at all is written.
	}{
		"80 columns":        {cols: 80, live: true},
		"200 columns":       {cols: 200, live: true},
		"30 columns":        {cols: 30, live: true},
		"without colours":   {cols: 80, env: []string{"NO_COLOR=1"}, live: true},
		"a dumb terminal":   {cols: 1000, env: []string{"TERM=dumb"}, bare: true},
		"as text":           {cols: 1000, args: []string{"-o", "text"}, bare: true},
		"in a CI":           {cols: 1000, env: []string{"CI=true"}, bare: true},
		"marked unhealthy":  {cols: 80, args: []string{"--mode", "unhealthy"}, live: true},
		"waiting for AWS":   {cols: 80, args: []string{"--until", "terminated"}, live: true},
		"a plan beforehand": {cols: 80, args: []string{"plan"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, launchingFirst(4), false)
			c := a.onTerminal(tt.cols, tt.env, tt.args...)
			c.exits(0)
			c.assertSane()
			out := c.output()
			if bar := strings.Contains(out, "\u2588"); bar != tt.live {
				t.Errorf("there is a bar: %v, want %v", bar, tt.live)
			}
			if tt.bare && strings.Contains(out, "\x1b") {
				t.Error("the trigger wrote a control sequence")
			}
			if name == "without colours" && regexp.MustCompile("\x1b\\[[0-9;]*m").MatchString(out) {
				t.Error("the trigger wrote a colour")
			}
		})
	}
}

// TestTerminalIsGivenBack: Ctrl-C asks the trigger to stop, and a second one ends it; the terminal is given back by
// either.
func TestTerminalIsGivenBack(t *testing.T) {
	// A trigger that is started under nohup minds no hangup. These tests may be; their trigger is not.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	for name, tt := range map[string]struct {
		says string
		stop func(a *amazon, c *console)
	}{
		"one Ctrl-C": {`interrupted`, func(_ *amazon, c *console) { c.press(ctrlC) }},
		"a second one, while a call takes long": {"", func(a *amazon, c *console) {
			a.Inject(awsim.Fault{Action: "CancelInstanceRefresh", Latency: time.Hour})
			c.press(ctrlC)
			a.must(a.WaitRequests(patient(t), "autoscaling", "CancelInstanceRefresh", 1))
			c.press(ctrlC)
		}},
		"a termination": {`interrupted`, func(_ *amazon, c *console) { _ = c.cmd.Process.Signal(syscall.SIGTERM) }},
		"a hangup":      {`interrupted`, func(_ *amazon, c *console) { _ = c.cmd.Process.Signal(syscall.SIGHUP) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, latest(4), false)
			a.stuck(time.Hour)
			c := a.onTerminal(80, nil, "--on-interrupt", "cancel")
			c.waitOutput("InProgress")
			tt.stop(a, c)
			c.exits(130, tt.says)
			c.assertSane()
		})
	}
}

// TestTerminalThatTakesNothing: a trigger whose output is held up ends nevertheless when it is told to twice.
func TestTerminalThatTakesNothing(t *testing.T) {
	t.Parallel()
	a := newAmazon(t, latest(4), false)
	a.stuck(time.Hour)
	c := a.onTerminal(80, nil)
	c.waitOutput("InProgress")
	c.press(ctrlS)
	<-time.After(1500 * time.Millisecond)                                      // The view is drawn once a second.
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} { // Two of a kind may arrive as one.
		_ = c.cmd.Process.Signal(signal)
	}
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Error("the trigger waits for the terminal")
		c.press(ctrlQ)
	}
	c.exits(130)
}
