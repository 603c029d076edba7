package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
)

// program is the command line of the trigger.
type program struct {
	executor executor
	name     string // by which it was started, for the help
	sections []section
	perform  func(context.Context, operation) (code int, err error) // runs after all options were read
	last     operation                                              // that was performed
	allHelp  bool                                                   // --help-all
	code     int
}

// operation is what a command does: one of these, or another action of package rollout.
type operation = rollout.Action

// The operations, besides the actions of package rollout.
const (
	opRun    operation = "run"
	opPlan   operation = "plan"
	opStatus operation = "status"
	opNodes  operation = "nodes"
	opWatch  operation = "watch"

	opHistory operation = "history"
)

func newProgram(environ []string, stdout, stderr io.Writer) *program {
	s := newSettings()
	p := &program{name: "trigger", sections: sections(s), executor: executor{
		version: "dev", environ: environment(environ), stdout: stdout, stderr: report.Lines(stderr), settings: s,
		patience: 5 * time.Second,
	}}
	p.perform = p.executor.execute
	return p
}

// run runs the command that the arguments name, and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.commands() //nolint:contextcheck // cobra passes the context on
	if slices.Equal(args, []string{"version"}) {
		args = []string{"--version"}
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if argumentHint(err) != "" { // cobra may have taken the value of a flag for one, after a flag that it does not know
		err = cmp.Or(flagError(root, root.ParseFlags(args)), err)
	}
	shows := slices.Contains([]operation{opPlan, opStatus, opNodes, opHistory}, p.last)
	if err == nil || shows && errors.Is(err, syscall.EPIPE) { // nobody reads the rest: trigger plan | head
		return p.code
	}
	lines := []string{err.Error()}
	if p.last == "" { // The error is about the arguments, and ours.
		lines = strings.Split(lines[0], "\n")
	}
	lines[0] = "trigger: " + lines[0]
	lines[len(lines)-1] += cmp.Or(argumentHint(err), awsHint(err), p.executor.accountHint(ctx, err))
	for _, line := range lines {
		_, _ = io.WriteString(p.executor.stderr, line)
	}
	if ctx.Err() != nil {
		return report.Interrupted.ExitCode()
	}
	return max(p.code, 1)
}

func (p *program) commands() *cobra.Command {
	root := p.command(opRun, "Replace outdated instances of Auto Scaling groups, and follow that to its end")
	root.Use = "trigger"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.name}
	root.Args = nil // so that cobra suggests commands for an unknown one
	// No template of cobra's is set: text/template calls methods by name, so that the linker would keep all
	// methods of the SDK, and the program would be more than twice as large.
	root.Version = p.executor.version
	root.SetOut(p.executor.stdout)
	root.SetErr(p.executor.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(p.help(root.HelpFunc()))
	root.AddCommand(
		p.command(opPlan, "Show what is outdated, whether it can be replaced, and how its nodes would drain; change nothing"),
		p.command(opStatus, "Show the progress of the newest Instance Refresh of each group"),
		p.command(opNodes, "Show the nodes that are being drained or terminated, and what each waits for"),
		p.historyCommand(),
		p.command(opWatch, "Look at the groups again and again, and replace what is outdated, until interrupted"),
		p.command(rollout.ActCancel, "Cancel the Instance Refresh that is under way; replaced instances are kept"),
		p.command(rollout.ActRollback, "Roll back the Instance Refresh that is under way, or return instances from Standby"),
		p.command(rollout.ActPause, "Pause Instance Refreshes, by suspending the process InstanceRefresh"),
		p.command(rollout.ActResume, "Resume paused Instance Refreshes, and give back what a killed trigger holds"),
	)
	p.addFlags(root)
	root.AddCommand(p.migrateCommand())
	refuseOtherShells(root)
	return root
}

// refuseOtherShells makes trigger completion an error for a shell that cobra has no completion for: it prints its help.
func refuseOtherShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"}) // which is there now
	completion.Args, completion.RunE = nil, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return fmt.Errorf("unknown shell %q: must be bash, zsh, fish or powershell", args[0])
	}
	completion.SilenceErrors, completion.SilenceUsage = true, true
}

// addFlags adds to each command the flags that it has.
func (p *program) addFlags(root *cobra.Command) {
	for _, c := range append(root.Commands(), root) {
		c.Flags().SortFlags = false
		c.Flags().BoolVar(&p.allHelp, "help-all", false, "explain all flags, their variables, and the exit codes")
		for _, o := range p.options(operationOf(c)) {
			o.add(c)
		}
	}
}

// operationOf returns what the command does: the root runs.
func operationOf(c *cobra.Command) operation {
	if !c.HasParent() {
		return opRun
	}
	return operation(c.Name())
}

// flagError adds to the error for an unknown flag which one may be meant, or where the flags are listed.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	flag := "--" + unknown.GetSpecifiedName()
	switch having := commandsWith(cmd.Root(), unknown.GetSpecifiedName()); len(having) {
	case 0:
	case 1:
		return fmt.Errorf("%w: it is a flag of %s", err, having[0])
	default:
		return fmt.Errorf("%w: %s does not have it", err, cmd.CommandPath())
	}
	if long := "--" + unknown.GetSpecifiedShortnames(); slices.Contains(known, long) { // all letters of -asg
		return fmt.Errorf("%w: did you mean %s?", err, long)
	}
	return fmt.Errorf("%w%s", err, suggestion(flag, known, cmd.CommandPath()+" --help-all"))
}

// commandsWith returns the commands that have the flag.
func commandsWith(root *cobra.Command, flag string) (having []string) {
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		if c.Flags().Lookup(flag) != nil {
			having = append(having, c.CommandPath())
		}
	}
	return having
}

func (p *program) command(v operation, about string) *cobra.Command {
	return &cobra.Command{
		Use: string(v), Short: about, Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.allHelp {
				p.helpAll(cmd)
				return nil
			}
			if err := p.readOptions(v); err != nil {
				return err
			}
			p.last = v
			p.code, err = p.perform(cmd.Context(), v)
			return err
		},
	}
}

// historyCommand is trigger history, which takes an argument.
func (p *program) historyCommand() *cobra.Command {
	c := p.command(opHistory, "Show the last drains, and of one node what became of each pod, also when the node is gone")
	c.Use = string(opHistory) + " [NODE|INSTANCE]"
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%d arguments: trigger history takes one node or one instance", len(args))
		}
		p.executor.settings.subject = strings.Join(args, "")
		return nil
	}
	return c
}

// options returns those that the command has.
func (p *program) options(v operation) (of options) {
	for _, s := range p.sections {
		if slices.Contains(s.commands, v) {
			of = append(of, s.options...)
		}
	}
	return of
}

// readOptions reads the options that the command has, and returns everything that is wrong with them.
func (p *program) readOptions(v operation) error {
	var errs []error
	var known []string
	s := p.executor.settings
	for _, o := range s.options {
		known = append(known, o.variable())
	}
	for _, o := range p.options(v) {
		if err := o.parse(p.executor.environ); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, unknownVariables(p.executor.environ, known)...)
	implyMode(s)
	if len(errs) == 0 {
		errs = s.conflicts(v)
	}
	switch {
	case len(errs) > 0:
		return usageError(errs)
	case v != opNodes && v != opHistory && !s.namesGroups():
		return errNoTarget
	}
	return nil
}
