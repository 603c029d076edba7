// Package gate runs the check by which a user decides whether a rollout continues.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Gate is a command, a URL, or both: then both must pass.
type Gate struct {
	Command string // of a shell
	URL     string
}

// ErrNoCommand says that the command cannot be run, however often it is tried.
var ErrNoCommand = errors.New("the command does not exist or may not be executed: correct its name or path")

// Point is where a rollout is.
type Point struct {
	Group           string
	Phase           string // start, batch or checkpoint
	Replaced, Total int    // instances of the group
}

// environ are the variables by which the command knows the point.
func (p Point) environ() []string {
	return []string{
		"GATE_GROUP=" + p.Group, "GATE_PHASE=" + p.Phase, "GATE_REPLACED=" + strconv.Itoa(p.Replaced),
		"GATE_TOTAL=" + strconv.Itoa(p.Total),
	}
}

// Try returns nil if the gate lets the rollout continue, else why not. When ctx ends, so does the command, with all
// that it has started.
func (g Gate) Try(ctx context.Context, at Point) error {
	if g.Command != "" {
		if err := run(ctx, g.Command, at); err != nil {
			return err
		}
	}
	if g.URL != "" {
		return get(ctx, g.URL)
	}
	return nil
}

// mostShown is how much of an output or an answer an error contains, in bytes.
const mostShown = 300

// closeDelay is how long the output of a command that has ended may stay open, by what it has started.
const closeDelay = time.Second

// run runs the command. A process that it leaves behind does not count, but is killed.
func run(ctx context.Context, command string, at Point) error {
	var output tail
	cmd := exec.CommandContext(ctx, "sh", "-c", command) //nolint:gosec // The user has it run.
	cmd.Env = append(os.Environ(), at.environ()...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = closeDelay
	isolate(cmd)
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrWaitDelay):
		kill(cmd)
		return nil
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	if isMissing(err) {
		err = fmt.Errorf("%w: %w", ErrNoCommand, err)
	}
	return fmt.Errorf("gate command: %w%s", err, shown(string(output)))
}

// isMissing reports whether there is no shell, or the shell has no such command. Source: "Exit Status for Commands" of
// the Shell Command Language in POSIX.
func isMissing(err error) bool {
	const notExecutable, notFound = 126, 127
	exit, ok := errors.AsType[*exec.ExitError](err)
	return errors.Is(err, exec.ErrNotFound) || ok && (exit.ExitCode() == notExecutable || exit.ExitCode() == notFound)
}

// tail keeps the end of what is written.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	all := append(*t, p...)
	*t = all[max(0, len(all)-mostShown):]
	return len(p), nil
}

// shown is a text on one line, for an error; empty if there is none.
func shown(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if text == "" {
		return ""
	}
	return ": " + text
}

// urlTimeout bounds one try of a URL: nodes disappear in a rollout, and connections to their pods hang.
const urlTimeout = 10 * time.Second

// get expects an answer with a status of success. Its errors name only the host: the rest of a URL may be a secret.
func get(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("gate URL: %w", withoutURL(err))
	}
	client := &http.Client{CheckRedirect: sameHost, Timeout: urlTimeout}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("gate URL: %s: %w", request.URL.Host, withoutURL(err))
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode/100 == 2 {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, mostShown))
	return fmt.Errorf("gate URL: %s answered %s%s", request.URL.Host, answer.Status, shown(string(body)))
}

// mostRedirects is how many redirects are followed.
const mostRedirects = 5

// sameHost refuses redirects to other hosts, or to a connection that is not encrypted: who answers there is not whom
// the user has asked.
func sameHost(request *http.Request, before []*http.Request) error {
	first := before[0].URL
	if len(before) > mostRedirects || request.URL.Host != first.Host || downgrades(first, request.URL) {
		return fmt.Errorf("redirected to %s", request.URL.Host)
	}
	return nil
}

// withoutURL returns the cause of an error of net/http or net/url, whose own text contains the URL.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func downgrades(from, to *url.URL) bool { return from.Scheme == "https" && to.Scheme != "https" }
