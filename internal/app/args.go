package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-drainer/node-drainer/internal/config"
)

// Answer prints what the command-line arguments request, and returns the exit code: 1 if that cannot be
// written, 2 for an unknown argument. Arguments only print information: environment variables configure the
// agent. Check has the arguments of agent check.
func Answer(args []string, version string, stdout, stderr io.Writer) int {
	var err error
	switch request := strings.Join(args, " "); request {
	case "--help", "-h":
		err = config.WriteHelp(stdout)
	case "--version", "version":
		_, err = fmt.Fprintln(stdout, "node-drainer agent", version)
	default:
		_, _ = fmt.Fprintf(stderr, "unknown argument %q: \"agent check\" checks the installation; "+
			"environment variables configure the agent, see agent --help\n", request)
		return 2
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
