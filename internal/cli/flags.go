package cli

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// section is a part of the flags.
type section struct {
	title   string
	reach   reach
	options []*option
}

// reach is which commands have the flags of a section.
type reach int

// The reaches.
const (
	rollouts reach = iota // What replaces, and what plans that.
	waiting               // And what acts on a refresh that runs.
	every                 // And all others.
)

// sections are all flags, in the order of the help. What is given is read into s.
func sections(s *settings) []section {
	return []section{
		{"Targets", every, targets(s)},
		{"What is outdated", rollouts, outdated(s)},
		{"How it is replaced", rollouts, replacing(s)},
		{"Mode refresh", rollouts, slices.Concat(pacing(s), guarding(s), meeting(s))},
		{"Mode unhealthy", rollouts, marking(s)},
		{"Following", waiting, following(s)},
		{"Plan", rollouts, planning(s)},
		{"Output", every, telling(s)},
		{"Connections", every, connections(s)},
	}
}

// flagSet is the section for pflag.
func (s section) flagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet(s.title, pflag.ContinueOnError)
	flags.SortFlags = false
	for _, o := range s.options {
		o.add(flags)
	}
	return flags
}

func targets(s *settings) []*option {
	return []*option{
		list(&s.Selection.Names, "asg", "NAME",
			"Auto Scaling group. Several are separated by commas, or the flag is repeated."),
		textOption(&s.Selection.Cluster, "cluster", "NAME",
			`Groups of this cluster, by their tags kubernetes.io/cluster/NAME, k8s.io/cluster-autoscaler/NAME or
			eks:cluster-name. With --asg or --tag: those of them that are of this cluster.`),
		list(&s.tags, "tag", "KEY[=VALUE]",
			"Groups with this tag. Several must all fit.").
			checked(func(t string) bool { return t != "" && t[0] != '=' }, "KEY or KEY=VALUE"),
		toggle(&s.AllowManaged, "allow-managed-nodegroup",
			`Whether groups of EKS managed node groups may be refreshed past EKS, which replaces their nodes
			itself (UpdateNodegroupVersion).`),
	}
}

func outdated(s *settings) []*option {
	return []*option{
		textOption(&s.Version, "launch-template-version", "VERSION",
			`Version of the group's launch template that the instances are to have: a number, '$Latest' or
			'$Default', in quotes. Not set, it is the group's own. An Instance Refresh gives it to the group
			when it has succeeded. Mode refresh only.`).
			checked(regexp.MustCompile(`^(\$Latest|\$Default|[1-9][0-9]*)$`).MatchString,
				"a number, '$Latest' or '$Default', in single quotes for the shell"),
		toggle(&s.All, "all",
			"Whether all instances are replaced, outdated or not."),
		toggle(&s.Preferences.SkipMatching, "skip-matching",
			`Whether an Instance Refresh leaves instances alone that match already. False is what --all is. Mode
			refresh only.`),
		span(into(&s.MaxAge), "", "max-age",
			"Instances that are older are outdated, whatever they were launched from. Mode unhealthy only.",
			time.Minute, 10*365*24*time.Hour),
		list(&s.Only, "instance", "ID",
			"Only these instances, outdated or not. Mode unhealthy only.").
			checked(regexp.MustCompile(`^i-[0-9a-f]+$`).MatchString, "the id of an instance, as i-0123456789abcdef0"),
		list(&s.Exclude, "exclude-node-label", "KEY[=VALUE]",
			"Instances whose node has this label are let alone. Mode unhealthy only; it needs Kubernetes.").
			checked(func(t string) bool { return t != "" && t[0] != '=' }, "KEY or KEY=VALUE"),
	}
}

func replacing(s *settings) []*option {
	return []*option{
		choice(into(&s.Mode), s.Mode, "mode",
			`Way of replacing. Refresh is an Instance Refresh, which AWS does on its own. Unhealthy marks
			outdated instances in batches, so that the group replaces them; the trigger must run on meanwhile.`,
			refresh.ModeRefresh, refresh.ModeUnhealthy),
		amount(pointer(&s.surge), "", "surge",
			`Instances that are launched beforehand, so many at a time: a number, or a share of the desired
			capacity, and one at least. In mode refresh the default is 10%. In mode unhealthy it is a number, by
			which the desired capacity is raised meanwhile, and the default is not to raise it.`),
		list(&s.Suspend, "suspend", "PROCESS",
			`Process of the groups that is suspended meanwhile: AZRebalance, AlarmNotification or
			ScheduledActions. What was suspended before stays so. A tag remembers it, so that the next run, or
			trigger resume, takes it back if this one is killed.`).
			checked(func(p string) bool { return slices.Contains(refresh.Suspendable(), p) },
				"one of "+strings.Join(refresh.Suspendable(), ", ")),
		choice(into(&s.Taint), s.Taint, "taint-outdated",
			`How new pods are kept off outdated nodes from the start of a rollout, so that a pod moves once. Soft
			is a taint with the effect PreferNoSchedule, hard one with NoSchedule; nothing is evicted by them.
			Other than none it needs Kubernetes, with the rights to get and patch nodes.`,
			cluster.NoTaint, cluster.SoftTaint, cluster.HardTaint),
		allowed(&s.Allow),
	}
}

// allowed takes checks by their names alone: one that is mistyped would refuse when the rollout is to begin.
func allowed(p *[]string) *option {
	o := list(p, "allow", "CHECK", "Check of the preflight that may refuse in vain, by its name: "+
		alternatives(refresh.Checks())+".")
	o.values = refresh.Checks()
	o.read = func(text string) error {
		if !slices.Contains(o.values, text) {
			return errors.New("the name of a check" + meant(text, o.values))
		}
		*p = append(*p, text)
		return nil
	}
	return o
}

func pacing(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		choice(into(&s.strategy), s.strategy, "strategy",
			"Which comes first for the instances that --surge counts, the new one or the end of the old one.",
			refresh.LaunchFirst, refresh.TerminateFirst),
		number(pointer(&p.MinHealthy), "", "min-healthy", "PERCENT",
			`Least percentage of the desired capacity that is in service and healthy (MinHealthyPercentage),
			instead of --surge.`, 0, 100),
		number(pointer(&p.MaxHealthy), "", "max-healthy", "PERCENT",
			`Most percentage of the desired capacity that is in service or coming (MaxHealthyPercentage). It
			needs --min-healthy, and is no more than 100 above it.`, 100, 200),
		seconds(pointer(&p.Warmup), "warmup",
			`Time that a new instance gets in service before the next one is replaced (InstanceWarmup). Not set,
			it is the group's default.`, fortnight),
		checkpoints(&p.Checkpoints),
		seconds(pointer(&p.CheckpointDelay), "checkpoint-delay",
			"Time to wait at each checkpoint (CheckpointDelay). Not set, AWS waits 1h.", 48*time.Hour),
	}
}

func guarding(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		seconds(pointer(&p.Bake), "bake",
			"Time for which alarms are watched after the last replacement (BakeTime).", 48*time.Hour),
		list(&p.Alarms, "alarm", "NAME",
			"CloudWatch alarm that fails the refresh. Up to ten."),
		toggle(&p.AutoRollback, "auto-rollback",
			`Whether AWS rolls back a refresh that fails. It needs --pin, and a group that does not follow
			$Latest or $Default.`),
		toggle(&s.Pin, "pin",
			`Whether the refresh is given the launch template version by its number, as its desired
			configuration. When it succeeds AWS writes that number into the group, in the place of $Latest or
			$Default. --pin=false leaves the group as it is, and cannot be rolled back.`),
	}
}

func meeting(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		word(&p.Protected, "protected",
			`What becomes of instances that are protected from scale in (ScaleInProtectedInstances). Wait fails
			after an hour. In mode unhealthy all but refresh leaves them alone.`,
			"refresh", "ignore", "wait"),
		word(&p.Standby, "standby",
			"What becomes of instances in standby (StandbyInstances). Wait fails after an hour.",
			"terminate", "ignore", "wait"),
		choice(into(&s.OnConflict), s.OnConflict, "on-conflict",
			`What to do if a refresh of the group is under way. Attach follows it, if it has the same target,
			and else fails. Wait waits for its end and looks again what is outdated. Cancel cancels it and
			starts anew. Fail ends with 6.`,
			rollout.Attach, rollout.Wait, rollout.CancelActive, rollout.Fail),
	}
}

// fortnight is how long an Instance Refresh can take at most. Source: "Instance refresh limits" in the
// user guide.
const fortnight = 14 * 24 * time.Hour

// word is a choice that the API writes with a capital, as users may who have it from there.
func word(p *string, name, help string, values ...string) *option {
	set := func(v string) { *p = strings.ToUpper(v[:1]) + v[1:] }
	o := choice(set, strings.ToLower(*p), name, help, values...)
	read := o.read
	o.read = func(text string) error { return read(strings.ToLower(text)) }
	return o
}

func checkpoints(p *[]int) *option {
	return &option{
		name: "checkpoints", kind: "PERCENT,...", many: true,
		help: `Percentages at which the refresh halts for --checkpoint-delay, as 1,10,50,100
			(CheckpointPercentages). They rise; if the last is less than 100, no more than that is replaced.`,
		read: func(text string) error {
			n, err := strconv.Atoi(text)
			falls := func(before int) bool { return before >= n }
			if err != nil || n < 1 || n > 100 || slices.ContainsFunc(*p, falls) {
				return errors.New("percentages from 1 to 100 that rise, as 1,10,50,100")
			}
			*p = append(*p, n)
			return nil
		},
	}
}

func marking(s *settings) []*option {
	p := &s.Pace
	return []*option{
		amount(into(&p.Batch), "1", "batch",
			`Instances that are replaced at a time: a number, or a share of the desired capacity, and one at
			least.`),
		span(into(&p.Between), "", "between",
			"Time from the end of a batch to the next.", 0, 24*time.Hour),
		choice(into(&p.Order), p.Order, "order",
			`Which go first: the oldest, or one Availability Zone after the other.`, refresh.ByAge, refresh.ByZone),
	}
}

func following(s *settings) []*option {
	return []*option{
		toggle(&s.noWait, "no-wait",
			`Whether the trigger ends when AWS has taken the request: to start refreshes, to cancel them or to
			roll them back. Mode refresh only.`),
		choice(into(&s.Until), s.Until, "until",
			`When a rollout is over. Replaced is when AWS says so; old nodes may still be draining. Drained is
			when no hook holds an old instance any more. Terminated is when all old instances have left the
			group.`,
			rollout.Replaced, rollout.Drained, rollout.Terminated),
		span(into(&s.Timeout), "", "timeout",
			`Time after which the trigger stops following. What runs goes on. Not set, there is no limit.`,
			0, fortnight),
		span(into(&s.StallTimeout), short(s.StallTimeout), "stall-timeout",
			`Time without any change after which the trigger stops following. What runs goes on. 0s is no limit.`,
			0, fortnight),
		span(into(&s.PollInterval), short(s.PollInterval), "poll-interval",
			"Time between two questions to AWS.", 100*time.Millisecond, 10*time.Minute),
		choice(into(&s.OnInterrupt), s.OnInterrupt, "on-interrupt",
			`What becomes of what runs when the trigger is interrupted. Detach leaves refreshes to AWS. Cancel
			cancels them, and in mode unhealthy takes a surge back. Rollback is for mode refresh only. A second
			interrupt ends the trigger at once.`,
			rollout.Detach, rollout.Cancel, rollout.Rollback),
		number(into(&s.Parallel), strconv.Itoa(s.Parallel), "parallel-asgs", "N",
			"Groups at a time. 0 is all. Cancel, rollback, pause and resume always go to all at once.", 0, 1000),
		toggle(&s.FailFast, "fail-fast",
			"Whether no further group is begun when one has failed."),
	}
}

func planning(s *settings) []*option {
	return []*option{
		toggle(&s.plan, "plan",
			"Whether to tell only what would be done. Nothing is changed. The command plan is the same."),
		toggle(&s.detailed, "detailed-exitcode",
			`Whether a plan ends with 2 if it finds outdated instances, those that are kept among them, or what a
			run would be refused for.`),
	}
}

func telling(s *settings) []*option {
	return []*option{
		choice(into(&s.output), s.output, "output",
			`Form of the output. Auto is a live view on a terminal, and else text. Json is one document: a plan,
			or how it stands in the end. Ndjson is one object for each line, as things happen.`,
			report.FormatAuto, report.FormatText, report.FormatJSON, report.FormatNDJSON).
			shorthand("o"),
		textOption(&s.summaryFile, "summary-file", "FILE",
			`File for a summary in Markdown, with one line at its head that says it all. It is written when a
			rollout fails, too.`),
	}
}

func connections(s *settings) []*option {
	return []*option{
		textOption(&s.cloud.Region, "region", "REGION",
			"AWS Region, instead of AWS_REGION or the profile's."),
		textOption(&s.cloud.Profile, "profile", "NAME",
			"Profile of the shared AWS configuration."),
		textOption(&s.cloud.RoleARN, "role-arn", "ARN",
			"IAM role to assume with the credentials that were found.").
			checked(func(t string) bool { return strings.HasPrefix(t, "arn:") },
				"an ARN, as arn:aws:iam::123456789012:role/rollouts"),
		textOption(&s.kubeconfig, "kubeconfig", "FILE",
			"Kubernetes configuration, instead of KUBECONFIG or the ServiceAccount of the pod."),
		textOption(&s.context, "context", "NAME",
			"Context of the Kubernetes configuration, instead of its current one."),
		toggle(&s.noKubernetes, "no-kubernetes",
			"Whether Kubernetes is not asked at all. Nodes, their pods and budgets are not told then."),
	}
}
