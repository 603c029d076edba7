package cli

import (
	"cmp"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/node-drainer/node-drainer/internal/report"
)

// Manual returns the commands of the trigger with all that --help prints, for manual pages: their texts are Markdown,
// and a flag without a default has its kind in place of it. They are not to be run.
func Manual() *cobra.Command {
	p := newProgram(nil, io.Discard, io.Discard)
	root := p.commands()
	root.InitDefaultCompletionCmd()
	root.Long = strings.TrimSpace(about) + "\n\n# EXIT CODES\n\n" + indent(indent(report.ExitCodes())) +
		"\n# ENVIRONMENT\n\n" + escapeMarkdown(strings.TrimSpace(variables))
	root.Example = examples
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(describeFlag)
		c.PersistentFlags().VisitAll(describeFlag)
	}
	return root
}

// describeFlag may see a flag that several commands have more than once.
func describeFlag(f *pflag.Flag) {
	if strings.Contains(f.Usage, `\`) {
		return
	}
	f.Usage = escapeMarkdown(f.Usage)
	f.DefValue = cmp.Or(f.DefValue, f.Value.Type(), "false")
}

func escapeMarkdown(text string) string {
	return strings.NewReplacer("_", `\_`, "*", `\*`).Replace(text)
}
