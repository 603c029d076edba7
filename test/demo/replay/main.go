// Command replay prints a recorded run of the demo, in the time that it took. It needs nothing but Go.
package main

import (
	"bufio"
	"context"
	_ "embed" // For the recording.
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

// recording is an asciicast, which make demo-record writes.
//
//go:embed recording.cast
var recording string

// longestPause shortens the waits of the recording.
const longestPause = 1500 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	events, err := parse(recording)
	if err == nil {
		info, statErr := os.Stdout.Stat()
		isTerminal := statErr == nil && info.Mode()&os.ModeCharDevice != 0
		err = play(ctx, os.Stdout, events, isTerminal && os.Getenv("TERM") != "dumb")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// event is an output, and the pause before it.
type event struct {
	pause time.Duration
	text  string
}

// parse reads an asciicast of version 2.
func parse(text string) ([]event, error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	var header struct{ Version int }
	if !lines.Scan() {
		return nil, fmt.Errorf("the recording is empty: %w", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &header); err != nil || header.Version != 2 {
		return nil, fmt.Errorf("the recording is no asciicast of version 2: %w", err)
	}
	var events []event
	last := 0.0
	for lines.Scan() {
		var at float64
		var kind, output string
		if err := json.Unmarshal(lines.Bytes(), &[]any{&at, &kind, &output}); err != nil {
			return nil, fmt.Errorf("read the recording: %w", err)
		}
		pause := time.Duration((at - last) * float64(time.Second))
		events, last = append(events, event{min(pause, longestPause), output}), at
	}
	return events, lines.Err()
}

// play prints the events until ctx ends. Without a terminal it prints only whole lines, without colors.
func play(ctx context.Context, out io.Writer, events []event, isTerminal bool) error {
	for _, e := range events {
		select {
		case <-time.After(e.pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		text := e.text
		if !isTerminal {
			text = plain(text)
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return nil
}

// plain returns the whole lines of an output, without control sequences. A status line is not one: it does not end,
// and a later output removes it.
func plain(text string) string {
	text = text[:strings.LastIndex(text, "\n")+1]
	text = regexp.MustCompile("(?m)^.*\r").ReplaceAllString(text, "")
	return regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]").ReplaceAllString(text, "")
}
