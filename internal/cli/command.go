package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
)

// program is one run of the trigger.
type program struct {
	version        string
	environ        map[string]string
	stdout, stderr io.Writer
	settings       *settings
	sections       []section
	perform        func(context.Context, verb) (code int, err error) // What a command does, once all is read.
	code           int
}

// verb is what a command does.
type verb string

// The verbs, besides the actions of package trigger.
const (
	verbRun    verb = "run"
	verbPlan   verb = "plan"
	verbStatus verb = "status"
)

func newProgram(environ []string, stdout, stderr io.Writer) *program {
	s := newSettings()
	p := &program{
		version: "dev", environ: environment(environ), stdout: stdout, stderr: stderr, settings: s, sections: sections(s),
	}
	p.perform = p.do
	return p
}

// run runs the command that the arguments name, and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.commands() //nolint:contextcheck // cobra hands the context on
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return p.code
	}
	_, _ = fmt.Fprintln(p.stderr, "trigger:", err)
	if ctx.Err() != nil {
		return report.Interrupted.ExitCode()
	}
	return max(p.code, 1)
}

// commands are the trigger's commands.
func (p *program) commands() *cobra.Command {
	root := p.command("trigger", verbRun,
		"Replace outdated instances of Auto Scaling groups, and follow that to its end")
	root.Args = nil // so that an unknown command is told with those that it resembles
	// No template of cobra's is set: text/template calls methods by name, so that the linker would have to keep
	// all methods of the SDK, and the program be more than twice as large.
	root.Version = p.version
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetHelpFunc(p.help(root.HelpFunc()))
	root.AddCommand(
		p.command("plan", verbPlan, "Tell what is outdated, why, and whether it can be replaced; change nothing"),
		p.command("status", verbStatus, "Tell how the newest Instance Refresh of each group stands"),
		p.action(rollout.ActCancel, "Cancel the Instance Refresh that is under way; what it has replaced stays"),
		p.action(rollout.ActRollback, "Roll the Instance Refresh back that is under way"),
		p.action(rollout.ActPause, "Halt Instance Refreshes, by suspending the process InstanceRefresh"),
		p.action(rollout.ActResume, "Let halted Instance Refreshes go on"),
		p.page(),
	)
	p.addFlags(root)
	p.complete(root)
	return root
}

// addFlags gives the commands the sections that reach them.
func (p *program) addFlags(root *cobra.Command) {
	for _, s := range p.sections {
		flags := s.flagSet()
		if s.reach == every {
			root.PersistentFlags().AddFlagSet(flags)
			continue
		}
		root.Flags().AddFlagSet(flags)
		for _, c := range root.Commands() {
			if s.reaches(verb(c.Name())) {
				c.Flags().AddFlagSet(flags)
			}
		}
	}
}

// reaches tells whether a command has the flags of the section.
func (s section) reaches(v verb) bool {
	switch rollout.Action(v) {
	case rollout.ActCancel, rollout.ActRollback, rollout.ActPause, rollout.ActResume:
		return s.reach >= waiting
	}
	return s.reach == every || v == verbPlan
}

func (p *program) command(name string, v verb, about string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: about, Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := p.settle(cmd, v); err != nil {
				return err
			}
			if v == verbRun && p.settings.plan {
				v = verbPlan
			}
			p.code, err = p.perform(cmd.Context(), v)
			return err
		},
	}
}

func (p *program) action(a rollout.Action, about string) *cobra.Command {
	return p.command(string(a), verb(a), about)
}

// complete has shells complete the words of choices, and the names of files.
func (p *program) complete(root *cobra.Command) {
	for _, o := range p.options() {
		complete := cobra.FixedCompletions(o.values, cobra.ShellCompDirectiveNoFileComp)
		if o.kind == "FILE" || o.kind == "" {
			continue
		}
		_ = root.RegisterFlagCompletionFunc(o.name, complete) // fails for flags that are not there
	}
}

// options are those of all sections.
func (p *program) options() []*option {
	var all []*option
	for _, s := range p.sections {
		all = append(all, s.options...)
	}
	return all
}

// settle reads the options that the command has, and returns all that is wrong with them.
func (p *program) settle(cmd *cobra.Command, v verb) error {
	var wrong mistakes
	var known []string
	s := p.settings
	for _, o := range p.options() {
		known = append(known, o.variable())
		if cmd.Flag(o.name) == nil {
			continue
		}
		as, err := o.settle(p.environ)
		if err != nil {
			wrong = append(wrong, err)
		}
		if as != "" {
			s.given[o.name] = as
		}
	}
	wrong = append(wrong, strange(p.environ, known)...)
	s.plan = s.plan || v == verbPlan
	if len(wrong) == 0 {
		wrong = s.contradictions()
	}
	switch {
	case len(wrong) > 0:
		return wrong
	case !s.targeted():
		return errNoTarget
	}
	return nil
}
