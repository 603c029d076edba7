package cli

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// section is a group of flags in the help.
type section struct {
	title   string
	reach   reach
	options []*option
}

// reach is which commands have the flags of a section.
type reach int

const (
	forPlans    reach = iota // trigger and trigger plan
	forRollouts              // and trigger watch
	forReturn                // and trigger rollback
	forWaiting               // and the commands that change a running refresh
	forGroups                // all commands that name groups
	forNodes                 // trigger nodes
	forWatch                 // trigger watch
	forAll                   // all commands
)

// sections returns all flags, in the order of the help. Their values are read into s.
func sections(s *settings) []section {
	return []section{
		{"Targets", forGroups, targetOptions(s)},
		{"What is outdated", forRollouts, outdatedOptions(s)},
		{"How it is replaced", forRollouts, replacementOptions(s)},
		{"Mode nodegroup", forRollouts, nodegroupOptions(s)},
		{"Mode refresh", forRollouts, slices.Concat(paceOptions(s), safetyOptions(s), exceptionOptions(s))},
		{"Modes unhealthy and standby", forRollouts, batchOptions(s)},
		{"Gates", forRollouts, gateOptions(s)},
		{"Maximum size", forReturn, maxOptions(s)},
		{"Cluster Autoscaler", forGroups, autoscalerOptions(s)},
		{"Following", forWaiting, followOptions(s)},
		{"Plan", forPlans, planOptions(s)},
		{"Nodes", forNodes, nodesOptions(s)},
		{"Watch", forWatch, watchOptions(s)},
		{"Output", forAll, outputOptions(s)},
		{"AWS", forGroups, awsOptions(s)},
		{"Kubernetes", forAll, kubernetesOptions(s)},
		{"Without Kubernetes", forGroups, []*option{boolean(&s.noKubernetes, "no-kubernetes",
			"Do not use Kubernetes. Nodes, their pods and budgets are not shown then.")}},
	}
}

// flagSet returns the section for pflag.
func (s section) flagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet(s.title, pflag.ContinueOnError)
	flags.SortFlags = false
	for _, o := range s.options {
		o.add(flags)
	}
	return flags
}

func targetOptions(s *settings) []*option {
	return append([]*option{
		list(&s.Selection.Names, "asg", "NAME",
			"Auto Scaling group. Separate several by commas, or repeat the flag.").limiting(),
		textOption(&s.Selection.Cluster, "cluster", "NAME",
			`Groups of this cluster, by their tags kubernetes.io/cluster/NAME, k8s.io/cluster-autoscaler/NAME or
			eks:cluster-name. With --asg or --tag, only those of them that belong to the cluster.`).
			limiting(),
		list(&s.tags, "tag", "KEY[=VALUE]",
			"Groups with this tag; KEY alone is any value. If repeated, a group must match all of them.").limiting().
			checked(regexp.MustCompile(`^[^=]+(=.+)?$`).MatchString, "KEY=VALUE, or KEY alone for any value"),
		boolean(&s.AllowManaged, "allow-managed-nodegroup",
			`Allow groups of EKS managed node groups. EKS replaces their nodes itself (UpdateNodegroupVersion),
			and does not know of a refresh that bypasses it: see --nodegroup.`),
	}, nodegroupTargets(s)...)
}

func outdatedOptions(s *settings) []*option {
	return []*option{
		textOption(&s.Version, "launch-template-version", "VERSION",
			`Version of the group's launch template to replace instances by: a number, '$Latest' or '$Default',
			in quotes. If not set, it is the group's own. AWS sets it on the group when the Instance Refresh
			has succeeded. In mode nodegroup it is a version of the node group's launch template, and '$Latest' if not
			set. Modes refresh and nodegroup only.`).
			checked(regexp.MustCompile(`^(\$Latest|\$Default|[1-9][0-9]*)$`).MatchString,
				"a number, '$Latest' or '$Default', in single quotes for the shell"),
		boolean(&s.All, "all",
			"Replace all instances, outdated or not."),
		boolean(&s.Preferences.SkipMatching, "skip-matching",
			`Do not replace instances that match already (SkipMatching). False is the same as --all. Mode refresh
			only.`),
		duration(into(&s.MaxAge), "", "max-age",
			"Age from which an instance is outdated, whatever it was launched from. Modes unhealthy and standby only.",
			time.Minute, 10*365*24*time.Hour),
		list(&s.Only, "instance", "ID",
			"Replace only these instances, outdated or not. Modes unhealthy and standby only.").limiting().
			checked(regexp.MustCompile(`^i-[0-9a-f]+$`).MatchString, "an instance id, such as i-0123456789abcdef0"),
		list(&s.Exclude, "exclude-node-label", "KEY[=VALUE]",
			"Do not replace instances whose node has this label. Modes unhealthy and standby only; it needs Kubernetes.").
			limiting().checked(func(t string) bool { return t != "" && t[0] != '=' }, "KEY or KEY=VALUE"),
	}
}

func replacementOptions(s *settings) []*option {
	return []*option{
		choice(into(&s.Mode), s.Mode, "mode",
			`How instances are replaced. Refresh starts an Instance Refresh, which AWS carries out without the
			trigger. Unhealthy marks outdated instances in batches, so that the group replaces them; the
			trigger must keep running. Standby moves them into Standby in batches, so that the group launches a
			replacement for each, and terminates them when these are in service and their nodes are ready; it needs
			no maintenance policy and no surge, and the trigger must keep running. Nodegroup has EKS update managed node
			groups, as --nodegroup and --all-nodegroups request it.`,
			refresh.ModeRefresh, refresh.ModeUnhealthy, refresh.ModeStandby, refresh.ModeNodegroup),
		amount(pointer(&s.surge), "", "surge",
			`Instances that are launched before as many are terminated: a number, or a percentage of the desired
			capacity, at least one. In mode refresh the default is 10%. In mode unhealthy the desired capacity
			is raised by it during the rollout, by no more than are outdated; by default it is not raised. Mode standby
			has none: each batch is replaced before it leaves.`),
		duration(into(&s.ReadyTimeout), "", "ready-timeout",
			`Time after which a new instance in service whose node is missing or not Ready fails the rollout. In mode
			refresh the refresh is cancelled, or rolled back with --auto-rollback. In the other modes no further
			instance is replaced. If not set, the nodes do not end a rollout before --stall-timeout does. It needs
			Kubernetes.`,
			time.Second, maxRefreshTime),
		list(&s.Suspend, "suspend", "PROCESS",
			`Process of the groups to suspend during the rollout: AZRebalance, AlarmNotification or
			ScheduledActions. Processes that were suspended before stay suspended. A tag records it, so that
			the next run, or trigger resume, resumes the process if this run is killed.`).
			checked(func(p string) bool { return slices.Contains(refresh.Suspendable(), p) },
				"one of "+strings.Join(refresh.Suspendable(), ", ")),
		choice(into(&s.Taint), s.Taint, "taint-outdated",
			`Taint on outdated nodes from the start of a rollout, which keeps new pods off them, so that each pod
			moves once. Soft has the effect PreferNoSchedule, hard NoSchedule; neither evicts pods. Both need
			Kubernetes, with permission to get and patch nodes.`,
			cluster.NoTaint, cluster.SoftTaint, cluster.HardTaint),
		togetherOption(s),
		allowOption(&s.Allow),
	}
}

// allowOption accepts names of checks only: a mistyped one would else be noticed when the preflight refuses.
func allowOption(p *[]string) *option {
	help := "Proceed even if this preflight check fails: " + alternatives(refresh.Checks()) + "."
	o := list(p, "allow", "CHECK", help)
	o.values = refresh.Checks()
	o.read = func(text string) error {
		if !slices.Contains(o.values, text) {
			return errors.New("the name of a check" + suggestion(text, o.values, "trigger --help"))
		}
		*p = append(*p, text)
		return nil
	}
	return o
}

func paceOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		choice(into(&s.Strategy), s.Strategy, "strategy",
			"Whether the instances that --surge counts are launched before old ones are terminated, or after.",
			refresh.LaunchFirst, refresh.TerminateFirst),
		number(pointer(&p.MinHealthy), "", "min-healthy", "PERCENT",
			`Minimum percentage of the desired capacity that stays in service and healthy
			(MinHealthyPercentage), instead of --surge.`, 0, 100),
		number(pointer(&p.MaxHealthy), "", "max-healthy", "PERCENT",
			`Maximum percentage of the desired capacity that is in service or pending (MaxHealthyPercentage). It
			needs --min-healthy, and is at most 100 above it.`, 100, 200),
		seconds(pointer(&p.Warmup), "warmup",
			`Time that a new instance is in service before the next one is replaced (InstanceWarmup). If not set,
			it is the group's default.`, maxRefreshTime),
		checkpoints(&p.Checkpoints),
		seconds(pointer(&p.CheckpointDelay), "checkpoint-delay",
			"Time to wait at each checkpoint (CheckpointDelay). If not set, AWS waits 1h.", 48*time.Hour),
	}
}

func safetyOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		seconds(pointer(&p.Bake), "bake",
			"Time for which AWS watches the alarms after the last replacement (BakeTime).", 48*time.Hour),
		list(&p.Alarms, "alarm", "NAME",
			`CloudWatch alarm that fails the refresh. At most ten. A name with a comma must be in double quotes:
			'"High CPU, prod"'.`),
		boolean(&p.AutoRollback, "auto-rollback",
			`Roll back a refresh that fails. AWS does this. It needs a group that does not use $Latest or
			$Default.`),
		pinOption(s),
	}
}

func pinOption(s *settings) *option {
	o := choice(into(&s.Pin), s.Pin, "pin",
		`Set the launch template version by its number in the desired configuration of the refresh. When the refresh
		succeeds, AWS replaces $Latest or $Default in the group by that number, so that the group does not follow the
		template any more. Auto does it if the group has a number, or if another version than the group's or a rollback
		is requested. A refresh without it cannot be rolled back.`,
		refresh.PinAuto, refresh.PinAlways, refresh.PinNever)
	o.bare = string(refresh.PinAlways)
	return o
}

func exceptionOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		apiChoice(&p.Protected, "protected",
			`What to do about instances that are protected from scale in (ScaleInProtectedInstances). Wait fails
			after an hour. In the other modes only refresh replaces them.`,
			"refresh", "ignore", "wait"),
		apiChoice(&p.Standby, "standby",
			"What to do about instances in standby (StandbyInstances). Wait fails after an hour.",
			"terminate", "ignore", "wait"),
		choice(into(&s.OnConflict), s.OnConflict, "on-conflict",
			`What to do if a refresh of the group is under way. Attach follows it if it has the same target, and
			fails otherwise. Wait waits for its end, then replaces what is still outdated. Cancel cancels it
			and does not wait for its drains, then does the same. Fail exits with 6.`,
			rollout.Attach, rollout.Wait, rollout.CancelActive, rollout.Fail),
	}
}

// maxRefreshTime is the longest time that an Instance Refresh can take. Source: "Instance refresh limits" in
// the user guide.
const maxRefreshTime = 14 * 24 * time.Hour

// apiChoice is a choice whose values begin with a capital letter in the AWS API. Both spellings are
// accepted.
func apiChoice(p *string, name, help string, values ...string) *option {
	set := func(v string) { *p = strings.ToUpper(v[:1]) + v[1:] }
	o := choice(set, strings.ToLower(*p), name, help, values...)
	read := o.read
	o.read = func(text string) error { return read(strings.ToLower(text)) }
	return o
}

func checkpoints(p *[]int) *option {
	return &option{
		name: "checkpoints", kind: "PERCENT,...", many: true,
		help: `Percentages at which the refresh waits for --checkpoint-delay (CheckpointPercentages), ascending, for
			example 1,10,50,100. If the last is less than 100, no more than that is replaced.`,
		read: func(text string) error {
			n, err := strconv.Atoi(text)
			tooLow := func(before int) bool { return before >= n }
			if err != nil || n < 1 || n > 100 || slices.ContainsFunc(*p, tooLow) {
				return errors.New("ascending percentages from 1 to 100, for example 1,10,50,100")
			}
			*p = append(*p, n)
			return nil
		},
	}
}

func batchOptions(s *settings) []*option {
	p := &s.Pace
	return []*option{
		amount(into(&p.Batch), "1", "batch",
			`Instances that are replaced at a time: a number, or a percentage of the desired capacity, at least
			one.`),
		amount(into(&p.Step), "", "surge-step",
			`Instances by which --surge raises the desired capacity at a time: a number, or a percentage of the desired
			capacity, at least one. Each step begins when the nodes of the one before are Ready. If not set, all of the
			surge is launched at once.`),
		duration(into(&p.Between), "", "between",
			"Time between the end of a batch and the next one.", 0, 24*time.Hour),
		choice(into(&p.Order), p.Order, "order",
			"Which instances are replaced first: the oldest, or one Availability Zone after the other.",
			refresh.ByAge, refresh.ByZone),
		choice(into(&p.Then), p.Then, "then",
			`What happens to an instance in Standby when it is replaced. Terminate terminates it, and its hook has the
			agent drain the node. Stop has the agent drain the node, by an annotation, then stops the instance, which
			stays in Standby. Keep does the same, and does not stop it. Both need Kubernetes, with permission to get
			and patch nodes. Mode standby only.`,
			refresh.ThenTerminate, refresh.ThenStop, refresh.ThenKeep),
	}
}

func autoscalerOptions(s *settings) []*option {
	return []*option{
		textOption(&s.autoscaler, "pause-autoscaler", "NAMESPACE/NAME",
			`Deployment of the Cluster Autoscaler to scale to 0 replicas from the first change to the end of the last
			group. An annotation has the number of replicas, the owner, and when it expires unless it is renewed. If this
			run is killed, the next run with this flag scales it back, as do trigger resume, and the agent if
			AUTOSCALER_DEPLOYMENT names it. A Deployment without replicas is left alone. Plan and status show who has
			paused it. It is rarely needed: the agent protects new nodes. It needs Kubernetes.`).
			checked(regexp.MustCompile(`^[a-z0-9-]+/[a-z0-9.-]+$`).MatchString, "NAMESPACE/NAME"),
	}
}

func followOptions(s *settings) []*option {
	return []*option{
		boolean(&s.noWait, "no-wait",
			`Return as soon as AWS accepts the request to start, cancel or roll back a refresh. Mode refresh
			only.`),
		choice(into(&s.Until), s.Until, "until",
			`When a rollout has ended. Replaced: AWS reports success; old nodes may still be draining. Drained: no
			lifecycle hook holds an old instance any more. Terminated: all old instances have left the group.`,
			rollout.Replaced, rollout.Drained, rollout.Terminated),
		duration(into(&s.Timeout), "", "timeout",
			`Time after which the trigger stops following. A running refresh continues. If not set, there is no
			limit.`,
			0, maxRefreshTime),
		duration(into(&s.StallTimeout), shortDuration(s.StallTimeout), "stall-timeout",
			`Time without any change after which the trigger stops following. A running refresh continues. 0s is no
			limit.`,
			0, maxRefreshTime),
		duration(into(&s.PollInterval), shortDuration(s.PollInterval), "poll-interval",
			"Time between two reads from AWS.", 100*time.Millisecond, 10*time.Minute),
		choice(into(&s.OnInterrupt), s.OnInterrupt, "on-interrupt",
			`What to do when the trigger is interrupted. Detach leaves running refreshes to AWS. Cancel cancels
			them, and in mode unhealthy restores the desired capacity. Rollback rolls them back, in mode refresh
			only. A second interrupt ends the trigger at once.`,
			rollout.Detach, rollout.Cancel, rollout.Rollback),
		number(into(&s.Parallel), strconv.Itoa(s.Parallel), "parallel-asgs", "N",
			"Groups at a time. 0 is all. Cancel, rollback, pause and resume always act on all at once.", 0, 1000),
		boolean(&s.FailFast, "fail-fast",
			"Start no further group when one has failed."),
	}
}

func planOptions(s *settings) []*option {
	return []*option{
		boolean(&s.plan, "plan",
			"Only show what would be done, and change nothing. The command plan does the same."),
		boolean(&s.detailed, "detailed-exitcode",
			`Exit with 2 if a plan finds outdated instances, including those that a run would keep. A plan whose run
			would be refused has the exit code of that run in any case.`),
	}
}

func nodesOptions(s *settings) []*option {
	follow := boolean(&s.follow, "watch",
		"Show the nodes again after each change, until interrupted. The exit code is 0 then.")
	follow.short = "w"
	return []*option{follow}
}

func outputOptions(s *settings) []*option {
	output := choice(into(&s.output), s.output, "output",
		`Format of the output. Auto is a live view on a terminal, otherwise text. Json is one document: a plan,
		or the result. Ndjson is one object a line, as things happen.`,
		report.FormatAuto, report.FormatText, report.FormatJSON, report.FormatNDJSON)
	output.short = "o"
	return []*option{
		output,
		textOption(&s.summaryFile, "summary-file", "FILE",
			`File for a summary in Markdown, whose first line has the result. It is also written when a rollout
			fails.`),
	}
}

func awsOptions(s *settings) []*option {
	return []*option{
		textOption(&s.cloud.Region, "region", "REGION",
			"AWS Region, instead of AWS_REGION or the profile's."),
		textOption(&s.cloud.Profile, "profile", "NAME",
			"Profile of the shared AWS configuration."),
		textOption(&s.cloud.RoleARN, "role-arn", "ARN",
			"IAM role to assume with these credentials.").
			checked(func(t string) bool { return strings.HasPrefix(t, "arn:") },
				"an ARN, for example arn:aws:iam::123456789012:role/rollouts"),
		textOption(&s.cloud.ExternalID, "external-id", "ID",
			"External id that the trust policy of the role of --role-arn requires."),
	}
}

func kubernetesOptions(s *settings) []*option {
	return []*option{
		textOption(&s.kubeconfig, "kubeconfig", "FILE",
			"Kubernetes configuration, instead of KUBECONFIG or the ServiceAccount of the pod."),
		textOption(&s.context, "context", "NAME",
			"Context of the Kubernetes configuration, instead of its current one."),
	}
}
