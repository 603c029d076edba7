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
	sections []section
	perform  func(context.Context, operation) (code int, err error) // runs after all options were read
	last     operation                                              // that was performed
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
)

func newProgram(environ []string, stdout, stderr io.Writer) *program {
	s := newSettings()
	p := &program{sections: sections(s), executor: executor{
		version: "dev", environ: environment(environ), stdout: stdout, stderr: stderr, settings: s,
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
	shows := slices.Contains([]operation{opPlan, opStatus, opNodes}, p.last)
	if err == nil || shows && errors.Is(err, syscall.EPIPE) { // nobody reads the rest: trigger plan | head
		return p.code
	}
	_, _ = fmt.Fprintf(p.executor.stderr, "trigger: %v%s\n", err,
		cmp.Or(argumentHint(err), regionHint(err), p.executor.accountHint(ctx, err)))
	if ctx.Err() != nil {
		return report.Interrupted.ExitCode()
	}
	return max(p.code, 1)
}

func (p *program) commands() *cobra.Command {
	root := p.command(opRun, "Replace outdated instances of Auto Scaling groups, and follow that to its end")
	root.Use = "trigger"
	root.Args = nil // so that cobra suggests commands for an unknown one
	// No template of cobra's is set: text/template calls methods by name, so that the linker would keep all
	// methods of the SDK, and the program would be more than twice as large.
	root.Version = p.executor.version
	root.SetOut(p.executor.stdout)
	root.SetErr(p.executor.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(p.help(root.HelpFunc()))
	root.AddCommand(
		p.command(opPlan, "Show what is outdated, why, and whether it can be replaced; change nothing"),
		p.command(opStatus, "Show the progress of the newest Instance Refresh of each group"),
		p.command(opNodes, "Show the nodes that are being drained or terminated, and what each waits for"),
		p.command(opWatch, "Look at the groups again and again, and replace what is outdated, until interrupted"),
		p.command(rollout.ActCancel, "Cancel the Instance Refresh that is under way; replaced instances are kept"),
		p.command(rollout.ActRollback, "Roll back the Instance Refresh that is under way, or return instances from Standby"),
		p.command(rollout.ActPause, "Pause Instance Refreshes, by suspending the process InstanceRefresh"),
		p.command(rollout.ActResume, "Resume paused Instance Refreshes, and give back what a killed trigger holds"),
	)
	p.addFlags(root)
	p.complete(root)
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

// addFlags adds each section to the commands that it is for.
func (p *program) addFlags(root *cobra.Command) {
	for _, s := range p.sections {
		flags := s.flagSet()
		if s.reach == forAll {
			root.PersistentFlags().AddFlagSet(flags)
			continue
		}
		if s.reach != forNodes && s.reach != forWatch {
			root.Flags().AddFlagSet(flags)
		}
		for _, c := range root.Commands() {
			if s.reaches(operation(c.Name())) {
				c.Flags().AddFlagSet(flags)
			}
		}
	}
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
	if long := "--" + unknown.GetSpecifiedShortnames(); slices.Contains(known, long) { // all letters of -asg
		return fmt.Errorf("%w: did you mean %s?", err, long)
	}
	return fmt.Errorf("%w%s", err, suggestion(flag, known, cmd.CommandPath()+" --help"))
}

// argumentHint says how groups are named if err is cobra's, which has no type, for an argument that is no command and
// resembles none; else it is empty.
func argumentHint(err error) string {
	text := err.Error()
	if !strings.HasPrefix(text, "unknown command ") || strings.Contains(text, "Did you mean") {
		return ""
	}
	return ": groups are named by --asg; trigger --help lists the commands"
}

// reaches reports whether a command other than the root has the flags of the section.
func (s section) reaches(v operation) bool {
	switch s.reach {
	case forAll:
		return true
	case forNodes:
		return v == opNodes
	case forWatch:
		return v == opWatch
	case forGroups:
		return v != opNodes
	case forWaiting:
		return v != opNodes && v != opStatus
	case forReturn:
		return slices.Contains([]operation{opPlan, opWatch, rollout.ActRollback}, v)
	case forRollouts:
		return slices.Contains([]operation{opPlan, opWatch}, v)
	default:
		return v == opPlan
	}
}

func (p *program) command(v operation, about string) *cobra.Command {
	return &cobra.Command{
		Use: string(v), Short: about, Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := p.readOptions(cmd, v); err != nil {
				return err
			}
			if v == opRun && p.executor.settings.plan {
				v = opPlan
			}
			p.last = v
			p.code, err = p.perform(cmd.Context(), v)
			return err
		},
	}
}

// complete adds shell completion for choices. Names of files are completed by default.
func (p *program) complete(root *cobra.Command) {
	for _, o := range p.options() {
		complete := cobra.FixedCompletions(o.values, cobra.ShellCompDirectiveNoFileComp)
		if o.kind == "FILE" || o.kind == "" {
			continue
		}
		_ = root.RegisterFlagCompletionFunc(o.name, complete) // fails only for an unknown flag
	}
}

func (p *program) options() []*option {
	var all []*option
	for _, s := range p.sections {
		all = append(all, s.options...)
	}
	return all
}

// readOptions reads the options that the command has, and returns everything that is wrong with them.
func (p *program) readOptions(cmd *cobra.Command, v operation) error {
	var errs []error
	var known []string
	s := p.executor.settings
	for _, o := range p.options() {
		known = append(known, o.variable())
		if cmd.Flag(o.name) == nil {
			continue
		}
		source, err := o.parse(p.executor.environ)
		if err != nil {
			errs = append(errs, err)
		}
		if source != "" {
			s.given[o.name] = source
		}
	}
	errs = append(errs, unknownVariables(p.executor.environ, known)...)
	implyMode(s)
	s.plan = s.plan || v == opPlan
	return s.check(v, errs)
}

// check returns what was wrong with single options, or else what is wrong with them together.
func (s *settings) check(v operation, errs []error) error {
	switch {
	case len(errs) == 0 && v == opNodes:
		errs = s.nodesConflicts()
	case len(errs) == 0 && v == opWatch:
		errs = append(s.conflicts(), s.watchConflicts()...)
	case len(errs) == 0:
		errs = append(s.conflicts(), actionConflicts(s, v)...)
	}
	switch {
	case len(errs) > 0:
		return usageError(errs)
	case v != opNodes && !s.namesGroups():
		return errNoTarget
	}
	return nil
}

// actionConflicts returns an error for what can be done to an Instance Refresh, and not to an update of a node group.
func actionConflicts(s *settings, v operation) []error {
	ofRefreshes := []operation{rollout.ActCancel, rollout.ActRollback, rollout.ActPause}
	if !s.nodegroups.selected() || !slices.Contains(ofRefreshes, v) {
		return nil
	}
	return []error{fmt.Errorf("trigger %s is for Instance Refreshes: EKS has no call that does this to an update of a "+
		"node group", v)}
}
