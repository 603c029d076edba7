package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/node-drainer/node-drainer/internal/config"
)

// answer serves the arguments, which only ask for information: the agent is configured by its environment.
func answer(args []string, stdout, stderr io.Writer) int {
	var err error
	switch asked := strings.Join(args, " "); {
	case asked == "--help" || asked == "-h":
		err = config.WriteHelp(stdout)
	case asked == "--version":
		_, err = fmt.Fprintln(stdout, "node-drainer agent", version)
	case args[0] == "--help-markdown" && len(args) == 2: // for the documentation
		err = writeFile(args[1])
	default:
		_, _ = fmt.Fprintf(stderr, "unknown argument %q: the agent is configured by environment variables, "+
			"see agent --help\n", asked)
		return 2
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func writeFile(path string) error {
	f, err := os.Create(path) //nolint:gosec // the caller names the page to write
	if err != nil {
		return err
	}
	if err := config.WriteMarkdown(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
