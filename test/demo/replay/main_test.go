package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/test/picture"
)

//go:generate go test -run ^TestPicture . -update

var update = flag.Bool("update", false, "write the pictures in docs/pictures again")

// TestPicture: the picture of the pages shows the recording.
func TestPicture(t *testing.T) {
	events, err := parse(recording)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	var at time.Duration
	var written []time.Duration // the lines
	for _, e := range events {
		at += e.pause
		for range strings.Count(e.text, "\n") {
			written = append(written, at)
		}
		all.WriteString(e.text)
	}
	compare(t, "demo.svg", picture.SVG("The output of make demo", all.String(), written...))
}

// compare compares a picture of the pages.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("../../../docs/pictures", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != got {
		t.Errorf("go generate ./test/demo/replay writes %s again: %v", file, err)
	}
}

func TestRecording(t *testing.T) {
	events, err := parse(recording)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		began := time.Now()
		if err := play(t.Context(), &out, events, false); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 30*time.Second {
			t.Errorf("it takes %v, want half a minute", took)
		}
		if i := strings.IndexAny(out.String(), "\x1b\r\b"); i >= 0 {
			t.Errorf("a control character at byte %d", i)
		}
		if !strings.Contains(out.String(), "12/12 moved") {
			t.Errorf("it is no whole run:\n%s", &out)
		}
	})
}

func TestPlay(t *testing.T) {
	const cast = `{"version": 2, "width": 100, "height": 40}
[0.5, "o", "one\n"]
[0.75, "o", "\r\u001b[Kbar"]
[99.75, "o", "\r\u001b[K\u001b[1mtwo\u001b[0m\nbar"]
[99.75, "o", "\r\u001b[K"]
`
	events, err := parse(cast)
	if err != nil {
		t.Fatal(err)
	}
	for isTerminal, want := range map[bool]string{
		true:  "one\n\r\x1b[Kbar\r\x1b[K\x1b[1mtwo\x1b[0m\nbar\r\x1b[K",
		false: "one\ntwo\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			began := time.Now()
			err := play(t.Context(), &out, events, isTerminal)
			if took := time.Since(began); err != nil || out.String() != want || took != 750*time.Millisecond+longestPause {
				t.Errorf("%q in %v, %v; want %q", out.String(), took, err, want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := play(ctx, &strings.Builder{}, events, true); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	for _, wrong := range []string{"", "one\n", `{"version": 3}` + "\n", `{"version": 2}` + "\n{}\n"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("it reads %q", wrong)
		}
	}
}
