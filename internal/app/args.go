package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/node-drainer/node-drainer/internal/config"
)

// Answer prints what the command-line arguments request, and returns the exit code: 1 if that cannot be
// written, 2 for an unknown argument. Arguments only print information: environment variables configure the
// agent.
func Answer(args []string, version string, stdout, stderr io.Writer) int {
	var err error
	switch request := strings.Join(args, " "); {
	case request == "--help" || request == "-h":
		err = config.WriteHelp(stdout)
	case request == "--version":
		_, err = fmt.Fprintln(stdout, "node-drainer agent", version)
	case args[0] == "--help-markdown" && len(args) == 2: // generates docs/configuration.md
		err = writeMarkdown(args[1])
	default:
		_, _ = fmt.Fprintf(stderr, "unknown argument %q: the agent is configured by environment variables, "+
			"see agent --help\n", request)
		return 2
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func writeMarkdown(path string) error {
	var page bytes.Buffer
	if err := config.WriteMarkdown(&page); err != nil {
		return err
	}
	return os.WriteFile(path, page.Bytes(), 0o644) //nolint:gosec // a page of the docs, which anyone may read
}
