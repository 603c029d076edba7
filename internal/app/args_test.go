package app_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/app"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		stdout []string
		stderr string
	}{
		{"--help lists the variables", []string{"--help"}, 0, []string{"QUEUE_URL (required)", "LOG_LEVEL (default info)"}, ""},
		{"-h does the same", []string{"-h"}, 0, []string{"QUEUE_URL (required)"}, ""},
		{"--version", []string{"--version"}, 0, []string{"node-drainer agent 1.2.3\n"}, ""},
		{"version", []string{"version"}, 0, []string{"node-drainer agent 1.2.3\n"}, ""},
		{"unknown argument", []string{"drain"}, 2, nil, `unknown argument "drain": "agent check" checks the installation; environment variables configure`},
		{"unknown argument after a known one", []string{"--version", "now"}, 2, nil, `unknown argument "--version now"`},
		{"empty argument", []string{""}, 2, nil, `unknown argument ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := app.Answer(tt.args, "1.2.3", &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.stdout {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("%q is not in the output:\n%s", want, stdout.String())
				}
			}
			if !strings.Contains(stderr.String(), tt.stderr) || (tt.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("stderr is %q, want %q", stderr.String(), tt.stderr)
			}
			if tt.stdout == nil && stdout.Len() > 0 {
				t.Errorf("a failure printed %q to stdout", stdout.String())
			}
			if strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("the error has more than one line:\n%s", stderr.String())
			}
		})
	}
}

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestAnswerReportsClosedOutput(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--help", "--version"} {
		var stderr bytes.Buffer
		if code := app.Answer([]string{arg}, "", closedWriter{}, &stderr); code != 1 || stderr.Len() == 0 {
			t.Errorf("%s: exit code %d, stderr %q", arg, code, stderr.String())
		}
	}
}
