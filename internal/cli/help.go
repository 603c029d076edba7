package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
)

// about introduces the trigger.
const about = `
trigger replaces outdated instances of EC2 Auto Scaling groups, and follows that until the last old
node is drained. It drains nothing itself: the agent does, when a group terminates an instance.

By default it starts an Instance Refresh, which AWS carries out without the trigger. If the trigger is
stopped, start it again: it finds the refresh and follows it. "trigger plan" shows what is outdated, and
why. If Kubernetes can be reached, the trigger also shows nodes, their pods, and what blocks drains.
`

// examples are commands to begin with.
const examples = `  Show what would be replaced, and why; change nothing:
    trigger plan --asg workers
  Replace it, and wait until the old nodes are drained:
    trigger --asg workers
  The same in CI: all groups of a cluster with a tag, two at a time, for at most three hours:
    trigger --cluster prod --tag role=worker --parallel-asgs 2 --timeout 3h --summary-file summary.md
  Another version of the launch template, rolled back if an alarm fires:
    trigger --asg workers --launch-template-version 8 --auto-rollback --alarm errors-high --bake 10m
  First 1 % of the instances, then half of them, waiting 30 minutes after each:
    trigger --asg workers --checkpoints 1,50,100 --checkpoint-delay 30m
  Instances older than 30 days, two at a time, by marking them unhealthy:
    trigger --asg workers --mode unhealthy --max-age 30d --batch 2 --surge 2
  Replace each new version of the template by itself, at night:
    trigger watch --asg workers --surge 1 --interval 5m --window 22:00-05:00
  Show the progress, and stop:
    trigger status --asg workers
    trigger cancel --asg workers
  Show what each terminating node waits for; this needs Kubernetes, and no access to AWS:
    trigger nodes
  Show the last drains, or what became of the pods of one node, also when it is gone:
    trigger history
    trigger history i-0123456789abcdef0
`

// variables explains the environment variables.
const variables = `
Each flag can be set by a variable: --max-age by TRIGGER_MAX_AGE. Flags override variables. An unknown
variable TRIGGER_... is an error, and so is an empty one for --asg, --cluster, --tag, --instance and
--exclude-node-label.
`

// The exit codes of the commands that replace nothing.
const (
	nodesExitCodes = `
    0  the nodes were read
    1  error: Kubernetes refused a call, or a flag is wrong
`
	historyExitCodes = `
    0  the records were read
    1  error: there are none of the node or the instance, Kubernetes refused a call, or a flag is wrong
`
)

// fewFlags is up to how many flags a command has that --help explains all of them.
const fewFlags = 8

// help prints what a command does, and the flags that are used most. The commands that cobra adds have its help.
func (p *program) help(others func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		of := p.options(operationOf(cmd))
		switch {
		case cmd.RunE == nil || cmd.HasParent() && len(of) == 0:
			others(cmd, args)
			return
		case len(of) <= fewFlags:
			p.helpAll(cmd)
			return
		}
		var b strings.Builder
		introduction, _, _ := strings.Cut(about[1:], "\n\n")
		shown, _, _ := strings.Cut(examples, "  The same in CI")
		writeUsage(&b, cmd, introduction+"\n", shown)
		b.WriteString("\nThe flags used most:\n")
		for _, o := range of {
			if o.brief != "" {
				b.WriteString("  " + o.summary() + "\n")
			}
		}
		fmt.Fprintf(&b, "\n%s --help-all explains all %d flags, their variables, and the exit codes.\n",
			cmd.CommandPath(), len(of))
		_, _ = io.WriteString(cmd.OutOrStdout(), b.String())
	}
}

// helpAll prints all that there is to know of a command.
func (p *program) helpAll(cmd *cobra.Command) {
	var b strings.Builder
	writeUsage(&b, cmd, about[1:], examples)
	p.writeFlags(&b, cmd)
	codes := report.ExitCodes()
	switch operationOf(cmd) {
	case opNodes:
		codes = nodesExitCodes[1:]
	case opHistory:
		codes = historyExitCodes[1:]
	}
	b.WriteString("\nExit codes:\n" + indent(codes) + "\nEnvironment:\n" + indent(variables[1:]))
	_, _ = io.WriteString(cmd.OutOrStdout(), b.String())
}

// writeUsage writes what the command does. The introduction and the examples are those of the root.
func writeUsage(b *strings.Builder, cmd *cobra.Command, introduction, examples string) {
	if cmd.HasParent() {
		fmt.Fprintf(b, "%s.\n\nUsage:\n  %s\n", cmd.Short, cmd.UseLine())
		return
	}
	fmt.Fprintf(b, "%s\nUsage:\n  %s [flags]\n  %[2]s COMMAND [flags]\n\nCommands:\n%s\nExamples:\n%s",
		introduction, cmd.CommandPath(), commandList(cmd),
		strings.ReplaceAll(examples, "    trigger ", "    "+cmd.CommandPath()+" "))
}

func commandList(root *cobra.Command) string {
	var b strings.Builder
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	return b.String()
}

func (p *program) writeFlags(b *strings.Builder, cmd *cobra.Command) {
	for _, s := range p.sections {
		if !slices.Contains(s.commands, operationOf(cmd)) {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", s.title)
		for _, o := range s.options {
			b.WriteString("  " + o.title() + "\n" + text.Indent(s.textOf(o), "      ", 100))
		}
	}
	b.WriteString("\nInformation:\n  -h, --help\n  --help-all\n")
	if !cmd.HasParent() {
		b.WriteString("  -v, --version\n")
	}
}

// summary is the line of the short help, with the values of a choice at its end.
func (o *option) summary() string {
	title, brief := o.titleWithoutDefault(), o.brief
	if len(o.values) > 0 && !o.many {
		title = strings.TrimSuffix(title, o.kind) + strings.ToUpper(o.name)
		brief += ": " + alternatives(o.values)
	}
	return fmt.Sprintf("%-33s  %s", title, brief)
}

// title is the flag with its short name, its kind and its default.
func (o *option) title() string {
	title := o.titleWithoutDefault()
	if o.initial != "" {
		title += " (default " + o.initial + ")"
	}
	return title
}

func (o *option) titleWithoutDefault() string {
	title := o.flag()
	if o.short != "" {
		title = "-" + o.short + ", " + title
	}
	if o.kind != "" {
		title += " " + o.kind
	}
	return title
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}
