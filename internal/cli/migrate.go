package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/node-drainer/node-drainer/internal/migrate"
	"github.com/node-drainer/node-drainer/internal/report"
)

// migrateCommand translates the configuration of other programs. It uses neither AWS nor Kubernetes, and no options.
func (p *program) migrateCommand() *cobra.Command {
	var names []string
	all := &cobra.Command{
		Use: "migrate", Short: "Translate the configuration of another program into ours",
		SilenceErrors: true, SilenceUsage: true, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("unknown program %q: must be %s", args[0], alternatives(names))
		},
	}
	for _, peer := range migrate.Peers() {
		names = append(names, peer.Name)
		all.AddCommand(p.peerCommand(peer))
	}
	all.Long = all.Short + ", which is printed.\n" +
		"What has no equivalent, and what to do about it, is printed to standard error."
	return all
}

func (p *program) peerCommand(peer migrate.Peer) *cobra.Command {
	return &cobra.Command{
		Use: peer.Name + " FILE", Short: "Translate the configuration of " + peer.Program,
		Long: fmt.Sprintf("Translate the configuration of %s. FILE has\n%s; - is standard input.\nPrinted are %s.\n\n"+
			"Exit codes: 0 if all options were translated or are not needed; 1 if the file cannot be read;\n"+
			"%d if an option has no equivalent or is unknown: standard error says which one, and what to do.",
			peer.Program, peer.Reads, peer.Prints, report.Incomplete.ExitCode()),
		Example:       "  " + peer.Example,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) != 1 {
				return fmt.Errorf("%s needs one file, or - for standard input", cmd.CommandPath())
			}
			p.code, err = p.migrate(peer, args[0], cmd.InOrStdin())
			return err
		},
	}
}

// migrate translates a file, and returns the exit code.
func (p *program) migrate(peer migrate.Peer, name string, stdin io.Reader) (code int, err error) {
	text, err := readConfiguration(name, stdin)
	if err != nil {
		return 0, err
	}
	result, err := peer.Translate(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	printed, err := result.Text()
	if err != nil {
		return 0, err
	}
	if _, err := io.WriteString(p.executor.stdout, printed); err != nil && !errors.Is(err, syscall.EPIPE) {
		return 0, fmt.Errorf("write the result: %w", err)
	}
	for _, missing := range result.Missing {
		_, _ = fmt.Fprintf(p.executor.stderr, "trigger: %s:%d: %v\n", name, missing.Line, missing)
		code = report.Incomplete.ExitCode()
	}
	for _, unneeded := range result.Unneeded {
		_, _ = fmt.Fprintf(p.executor.stderr, "trigger: %v\n", unneeded)
	}
	return code, nil
}

// readConfiguration reads no more than is needed to find that it is too large.
func readConfiguration(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the user names it
		if err != nil {
			return nil, err
		}
		defer file.Close()
		stdin = file
	}
	text, err := io.ReadAll(io.LimitReader(stdin, migrate.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
