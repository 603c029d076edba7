package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/node-drainer/node-drainer/internal/report"
)

// about is what a reader should know first.
const about = `
trigger has outdated instances of EC2 Auto Scaling groups replaced, and follows that until the last
old node is empty. It drains nothing itself: the agent does, when a group terminates an instance.

By default it starts an Instance Refresh, which AWS carries out on its own, and which a trigger that is
started again finds and follows. What is outdated, and why, is what "trigger plan" tells. Kubernetes is
asked if it can be reached: for nodes, their pods, and what holds their drains up.
`

// examples are lines to begin with.
const examples = `  Tell what would be replaced, and why; change nothing:
    trigger plan --asg workers
  Replace it, and wait until the old nodes are empty:
    trigger --asg workers
  The same in CI: all groups of a cluster with a tag, two at a time, for three hours at most:
    trigger --cluster prod --tag role=worker --parallel-asgs 2 --timeout 3h --summary-file summary.md
  A version of the launch template that the group does not have yet, with a way back:
    trigger --asg workers --launch-template-version 8 --auto-rollback --alarm errors-high --bake 10m
  First one instance in a hundred, then half of them, with a look in between:
    trigger --asg workers --checkpoints 1,50,100 --checkpoint-delay 30m
  What is older than 30 days, two at a time, by marking it unhealthy:
    trigger --asg workers --mode unhealthy --max-age 720h --batch 2 --surge 2
  How it stands, and stop it:
    trigger status --asg workers
    trigger cancel --asg workers
`

// variables says how the environment counts.
const variables = `
Each flag can be given as a variable: --max-age as TRIGGER_MAX_AGE. Flags win over variables, and a
variable that is empty counts as not set. A variable that begins with TRIGGER_ and is none of these is
refused, save for those that Kubernetes injects for a Service of that name. The AWS SDK and client-go
read their own: AWS_REGION, AWS_PROFILE, AWS_ROLE_ARN, KUBECONFIG, HTTPS_PROXY and so on.
`

// help writes what a command does, and the flags that it has. Commands that are not ours have cobra's
// help.
func (p *program) help(others func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		if cmd.RunE == nil || cmd.Hidden || cmd.HasParent() && cmd.Parent().HasParent() {
			others(cmd, args)
			return
		}
		var b strings.Builder
		if cmd.HasParent() {
			fmt.Fprintf(&b, "%s.\n\nUsage:\n  %s [flags]\n", cmd.Short, cmd.CommandPath())
		} else {
			b.WriteString(about[1:] + "\nUsage:\n  trigger [flags]\n  trigger COMMAND [flags]\n\n")
			fmt.Fprintf(&b, "Commands:\n%s\nExamples:\n%s", commandList(cmd), examples)
		}
		p.writeFlags(&b, cmd)
		b.WriteString("\nExit codes:\n" + indent(report.ExitCodes()) + "\nEnvironment:\n" + indent(variables[1:]))
		_, _ = io.WriteString(cmd.OutOrStdout(), b.String())
	}
}

// commandList has a line for each command.
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
		if cmd.Flag(s.options[0].name) == nil {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", s.title)
		for _, o := range s.options {
			b.WriteString("  " + o.title() + "\n" + wrap(o.help, "      ", 100))
		}
	}
	b.WriteString("\nInformation:\n  -h, --help\n")
	if !cmd.HasParent() {
		b.WriteString("  -v, --version\n")
	}
}

// title is the flag with its letter, its kind and its default.
func (o *option) title() string {
	title := o.flag()
	if o.short != "" {
		title = "-" + o.short + ", " + title
	}
	if o.kind != "" {
		title += " " + o.kind
	}
	if o.initial != "" {
		title += " (default " + o.initial + ")"
	}
	return title
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

// wrap breaks text into lines of at most width characters, each after indent.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}

// page is the command that writes the reference for the documentation.
func (p *program) page() *cobra.Command {
	return &cobra.Command{
		Use: "help-markdown FILE", Short: "Write the reference of the documentation", Hidden: true,
		Args: cobra.ExactArgs(1), SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := p.markdown(cmd.Root())
			return os.WriteFile(args[0], []byte(text), 0o644) //nolint:gosec // a page that all may read
		},
	}
}

// markdown is the reference as a page.
func (p *program) markdown(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Flags of the trigger\n\n" +
		"<!-- Generated by `make generate` from the flags of cmd/trigger. -->\n\n" +
		"What they are for is in [trigger.md](trigger.md).\n" + variables + "\n" +
		"## Commands\n\n| Command | What it does |\n| --- | --- |\n| `trigger` | " + root.Short + " |\n")
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			fmt.Fprintf(&b, "| `trigger %s` | %s |\n", c.Name(), c.Short)
		}
	}
	for _, s := range p.sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.title, s.whose())
		b.WriteString("| Flag | Variable | Default | What it is |\n| --- | --- | --- | --- |\n")
		for _, o := range s.options {
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", o.markdownFlag(), o.variable(), o.markdownDefault(), o.help)
		}
	}
	b.WriteString("\n## Exit codes\n\n```text\n" + strings.TrimRight(report.ExitCodes(), "\n") + "\n```\n")
	return b.String()
}

func (s section) whose() string {
	switch s.reach {
	case every:
		return "All commands have these."
	case waiting:
		return "All commands but `trigger status` have these."
	}
	return "`trigger` and `trigger plan` have these."
}

// markdownFlag shows the flag with its kind, whose bars would end the cell of a table.
func (o *option) markdownFlag() string {
	flag := "`" + o.flag() + "`"
	if o.short != "" {
		flag = "`-" + o.short + "`, " + flag
	}
	switch {
	case len(o.values) > 0 && !o.many: // Of a list the help names them.
		return flag + " `" + strings.Join(o.values, "`, `") + "`"
	case o.kind != "":
		return flag + " `" + strings.ReplaceAll(o.kind, "|", "` or `") + "`"
	}
	return flag
}

func (o *option) markdownDefault() string {
	switch {
	case o.initial != "":
		return "`" + o.initial + "`"
	case o.kind == "":
		return "`false`"
	}
	return "not set"
}
