package cli

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// section is a group of flags in the help.
type section struct {
	title    string
	commands []operation // that have its flags, unless a flag says which
	options  []*option
}

// The commands that have something in common.
func rollingOut() []operation  { return []operation{opRun, opPlan, opWatch} }
func rollingBack() []operation { return append(rollingOut(), rollout.ActRollback) }
func following() []operation {
	return append(rollingBack(), rollout.ActCancel, rollout.ActPause, rollout.ActResume)
}
func namingGroups() []operation { return append(following(), opStatus) }
func allCommands() []operation  { return append(namingGroups(), opNodes, opHistory) }

// sections returns all flags, in the order of the help. Their values are read into s.
func sections(s *settings) []section {
	all := []section{
		{"Targets", namingGroups(), slices.Concat(targetOptions(s), nodegroupTargets(s))},
		{"What is outdated", rollingOut(), outdatedOptions(s)},
		{"How it is replaced", rollingOut(), replacementOptions(s)},
		{"Mode nodegroup", rollingOut(), nodegroupOptions(s)},
		{"Mode refresh", rollingOut(), slices.Concat(paceOptions(s), safetyOptions(s), exceptionOptions(s))},
		{"Modes unhealthy and standby", rollingOut(), batchOptions(s)},
		{"Gates", rollingOut(), gateOptions(s)},
		{"Maximum size", rollingBack(), maxOptions(s)},
		{"Cluster Autoscaler", append(rollingOut(), opStatus, rollout.ActResume), autoscalerOptions(s)},
		{"Several groups", rollingOut(), groupsOptions(s)},
		{"Following", following(), followOptions(s)},
		{"Time", namingGroups(), timeOptions(s)},
		{"Plan", []operation{opPlan}, planOptions(s)},
		{"Status and nodes", []operation{opStatus, opNodes}, againOptions(s)},
		{"History", []operation{opHistory}, historyOptions(s)},
		{"Watch", []operation{opWatch}, watchOptions(s)},
		{"Output", allCommands(), outputOptions(s)},
		{"AWS", namingGroups(), awsOptions(s)},
		{"Kubernetes", allCommands(), kubernetesOptions(s)},
		{"Without Kubernetes", namingGroups(), []*option{boolean(&s.noKubernetes, "no-kubernetes",
			"Do not use Kubernetes: show no nodes, pods and budgets.").
			inShort("do without Kubernetes, which shows nodes and their pods")}},
	}
	for _, section := range all {
		s.options = append(s.options, section.options...)
	}
	return all
}

func targetOptions(s *settings) []*option {
	return []*option{
		list(&s.Selection.Names, "asg", "NAME",
			"Auto Scaling group. Separate several by commas, or repeat the flag.").limiting().
			inShort("Auto Scaling group; separate several by commas").
			checked(func(t string) bool { return !strings.Contains(t, ":") },
				"a name, which has no colon; in an ARN it follows autoScalingGroupName/").
			without("nodegroup", "all-nodegroups"),
		textOption(&s.Selection.Cluster, "cluster", "NAME",
			"Groups with the tag kubernetes.io/cluster/NAME, k8s.io/cluster-autoscaler/NAME or eks:cluster-name.").
			limiting().inShort("all groups of this cluster, by their tags"),
		list(&s.tags, "tag", "KEY[=VALUE]",
			"Groups with this tag; KEY alone is any value. If repeated, all must match.").limiting().
			inShort("groups with this tag").
			checked(regexp.MustCompile(`^[^=]+(=.+)?$`).MatchString, "KEY=VALUE, or KEY alone for any value").
			without("nodegroup", "all-nodegroups"),
	}
}

func outdatedOptions(s *settings) []*option {
	return []*option{
		textOption(&s.Version, "launch-template-version", "VERSION",
			`Version of the launch template: a number, '$Latest' or '$Default', in quotes; by default the group's
			own, in mode nodegroup '$Latest'. A refresh that succeeds sets it on the group.`).
			in(refresh.ModeRefresh, refresh.ModeNodegroup).
			inShort("version to replace instances by; the group's own if not set").
			checked(regexp.MustCompile(`^(\$Latest|\$Default|[1-9][0-9]*)$`).MatchString,
				"a number, '$Latest' or '$Default', in single quotes for the shell"),
		boolean(&s.All, "all",
			"Replace all instances, outdated or not.").in(byGroups()...).
			inShort("replace all instances, outdated or not"),
		duration(into(&s.MaxAge), "", "max-age",
			"Age from which an instance is outdated.",
			time.Minute, 10*365*24*time.Hour).in(inBatches()...).inShort("age from which an instance is outdated"),
		list(&s.Only, "instance", "ID",
			"Replace only these instances, outdated or not.").limiting().in(inBatches()...).without("all").
			checked(regexp.MustCompile(`^i-[0-9a-f]+$`).MatchString, "an instance id, such as i-0123456789abcdef0"),
		list(&s.Exclude, "exclude-node-label", "KEY[=VALUE]",
			"Do not replace instances whose node has this label.").
			limiting().in(inBatches()...).onKubernetes().
			checked(func(t string) bool { return t != "" && t[0] != '=' }, "KEY or KEY=VALUE"),
	}
}

func replacementOptions(s *settings) []*option {
	return []*option{
		choice(into(&s.Mode), s.Mode, "mode",
			`How instances are replaced. Refresh: an Instance Refresh of AWS. Unhealthy: marks outdated instances
			in batches, which the group replaces. Standby: moves batches into Standby, and terminates them when
			their replacements are ready. Nodegroup: EKS updates managed node groups.`,
			refresh.ModeRefresh, refresh.ModeUnhealthy, refresh.ModeStandby, refresh.ModeNodegroup).
			inShort("how instances are replaced"),
		amount(pointer(&s.surge), "", "surge",
			`Instances that are launched before as many are terminated; a percentage is of the desired capacity.
			Mode refresh: by default 10%. Mode unhealthy: raises the desired capacity, by default not.`).
			in(refresh.ModeRefresh, refresh.ModeUnhealthy).
			inShort("instances that are launched before as many terminate"),
		duration(into(&s.ReadyTimeout), "", "ready-timeout",
			`Time after which a new instance whose node is missing or not Ready fails the rollout: a refresh is
			cancelled, or rolled back with --auto-rollback; other modes replace no further instance.`,
			time.Second, maxRefreshTime).onKubernetes().whileFollowing(),
		list(&s.Suspend, "suspend", "PROCESS",
			"Process to suspend during the rollout: AZRebalance, AlarmNotification or ScheduledActions.").
			in(byGroups()...).whileFollowing().
			checked(func(p string) bool { return slices.Contains(refresh.Suspendable(), p) },
				"one of "+strings.Join(refresh.Suspendable(), ", ")),
		choice(into(&s.Taint), s.Taint, "taint-outdated",
			"Taint that keeps new pods off outdated nodes: soft is PreferNoSchedule, hard NoSchedule.",
			cluster.NoTaint, cluster.SoftTaint, cluster.HardTaint).in(byGroups()...).onKubernetes(),
		choice(into(&s.Until), s.Until, "until",
			`When a rollout has ended. Replaced: AWS reports success; old nodes may still drain. Drained: no hook
			holds an old instance. Terminated: all old instances have left the group.`,
			plan.Replaced, plan.Drained, plan.Terminated).whileFollowing(),
		allowOption(&s.Allow),
	}
}

// The modes that have something in common.
func byGroups() []refresh.Mode { return append([]refresh.Mode{refresh.ModeRefresh}, inBatches()...) }

func inBatches() []refresh.Mode { return []refresh.Mode{refresh.ModeUnhealthy, refresh.ModeStandby} }

// allowOption accepts names of checks only: a mistyped one would else be noticed when the preflight refuses.
func allowOption(p *[]string) *option {
	o := list(p, "allow", "CHECK", "Proceed even if this preflight check fails.").
		inShort("proceed although this check of the preflight refuses")
	o.values = refresh.Allowable()
	o.read = func(text string) error {
		if !slices.Contains(o.values, text) {
			return errors.New("the name of a check" + suggestion(text, o.values, "trigger --help-all"))
		}
		*p = append(*p, text)
		return nil
	}
	return o
}

func paceOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		number(pointer(&p.MinHealthy), "", "min-healthy", "PERCENT",
			`MinHealthyPercentage, instead of --surge. With --max-healthy 100, instances are terminated before
			their replacements launch.`, 0, 100).
			in(refresh.ModeRefresh).without("surge"),
		number(pointer(&p.MaxHealthy), "", "max-healthy", "PERCENT",
			"MaxHealthyPercentage, at most 100 above --min-healthy.", 100, 200).
			in(refresh.ModeRefresh).with("--min-healthy 90"),
		seconds(pointer(&p.Warmup), "warmup",
			"InstanceWarmup, by default the group's.", maxRefreshTime).in(refresh.ModeRefresh),
		checkpoints(&p.Checkpoints),
		seconds(pointer(&p.CheckpointDelay), "checkpoint-delay",
			"Time to wait at each checkpoint. By default AWS waits 1h.", 48*time.Hour).
			in(refresh.ModeRefresh).with("--checkpoints 10,50,100"),
	}
}

func safetyOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		seconds(pointer(&p.Bake), "bake",
			"Time for which AWS watches the alarms after the last replacement.", 48*time.Hour).
			in(refresh.ModeRefresh),
		list(&p.Alarms, "alarm", "NAME",
			`CloudWatch alarm that fails the refresh; at most ten. Quote a name with a comma twice: '"High CPU,
			prod"'.`).in(refresh.ModeRefresh),
		boolean(&p.AutoRollback, "auto-rollback",
			"Have AWS roll back a refresh that fails. The group must not use $Latest or $Default.").in(refresh.ModeRefresh),
		pinOption(s),
	}
}

func pinOption(s *settings) *option {
	o := choice(into(&s.Pin), s.Pin, "pin",
		`Send the number of the launch template version, which a rollback needs. When the refresh succeeds, AWS
		writes it into the group, which does not follow $Latest or $Default any more. Auto: if the group has a
		number, or another version or a rollback is requested.`,
		refresh.PinAuto, refresh.PinAlways, refresh.PinNever).in(refresh.ModeRefresh)
	o.bare = string(refresh.PinAlways)
	return o
}

func exceptionOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		apiChoice(&p.Protected, "protected",
			`Instances that are protected from scale in. Wait fails after an hour. In other modes only refresh
			replaces them.`,
			"refresh", "ignore", "wait").in(byGroups()...),
		apiChoice(&p.Standby, "standby",
			"Instances in standby. Wait fails after an hour.",
			"terminate", "ignore", "wait").in(refresh.ModeRefresh),
		choice(into(&s.OnConflict), s.OnConflict, "on-conflict",
			`What to do if a refresh is under way. Attach: follow it if it has the same target, otherwise exit with
			6. Wait: replace what is still outdated after its end. Cancel: cancel it, then the same. Fail: exit
			with 6.`,
			plan.Attach, plan.Wait, plan.CancelActive, plan.Fail).
			in(refresh.ModeRefresh, refresh.ModeNodegroup).valueIn(string(plan.CancelActive), refresh.ModeRefresh),
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
		name: "checkpoints", kind: "PERCENT,...", many: true, traits: traits{modes: []refresh.Mode{refresh.ModeRefresh}},
		help: `Percentages at which the refresh waits for --checkpoint-delay, for example 1,10,50,100. No more than
			the last is replaced.`,
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
			"Instances that are replaced at a time; a percentage is of the desired capacity.").in(inBatches()...),
		amount(into(&p.Step), "", "surge-step",
			`Instances by which --surge raises the desired capacity at a time, when the nodes of the step before
			are Ready. By default all at once.`).
			in(refresh.ModeUnhealthy).with("--surge 100%"),
		duration(into(&p.Between), "", "between",
			"Time between the end of a batch and the next one.", 0, 24*time.Hour).in(inBatches()...),
		choice(into(&p.Order), p.Order, "order",
			"The oldest first, or one Availability Zone after the other.",
			refresh.ByAge, refresh.ByZone).in(inBatches()...),
		choice(into(&p.Then), p.Then, "then",
			`What happens to a replaced instance in Standby. Terminate: its hook has the agent drain the node.
			Stop: the agent drains the node, and the instance is stopped. Keep: it is not stopped.`,
			refresh.ThenTerminate, refresh.ThenStop, refresh.ThenKeep).in(refresh.ModeStandby).onKubernetes(),
	}
}

func autoscalerOptions(s *settings) []*option {
	return []*option{
		textOption(&s.autoscaler, "pause-autoscaler", "NAMESPACE/NAME",
			`Deployment of the Cluster Autoscaler to scale to 0 during the rollout. Rarely needed: the agent
			protects new nodes.`).
			onKubernetes().whileFollowing().
			checked(regexp.MustCompile(`^[a-z0-9-]+/[a-z0-9.-]+$`).MatchString, "NAMESPACE/NAME"),
	}
}

func followOptions(s *settings) []*option {
	return []*option{
		boolean(&s.noWait, "no-wait",
			"Return as soon as AWS accepts the request to start, cancel or roll back a refresh.").
			in(refresh.ModeRefresh, refresh.ModeNodegroup),
		duration(into(&s.StallTimeout), shortDuration(s.StallTimeout), "stall-timeout",
			"Time without a change after which the trigger stops following; a refresh continues. 0s is no limit.",
			0, maxRefreshTime).whileFollowing(),
		choice(into(&s.OnInterrupt), s.OnInterrupt, "on-interrupt",
			`What to do when the trigger is interrupted. Detach: leave refreshes to AWS. Cancel: cancel them, and
			take back a surge. Rollback: roll them back.`,
			plan.Detach, plan.Cancel, plan.Rollback).whileFollowing().
			valueIn(string(plan.Cancel), byGroups()...).valueIn(string(plan.Rollback), refresh.ModeRefresh),
	}
}

func timeOptions(s *settings) []*option {
	return []*option{
		duration(into(&s.Timeout), "", "timeout",
			"Time after which the trigger stops following; a refresh continues. By default no limit.",
			0, maxRefreshTime).whileFollowing().inShort("stop following after this time; a refresh continues"),
		duration(into(&s.PollInterval), shortDuration(s.PollInterval), "poll-interval",
			"Time between two reads from AWS.", 100*time.Millisecond, 10*time.Minute),
	}
}

func planOptions(s *settings) []*option {
	return []*option{
		boolean(&s.detailed, "detailed-exitcode",
			"Exit with 2 if a plan finds outdated instances, unless a run would be refused."),
	}
}

func againOptions(s *settings) []*option {
	again := boolean(&s.follow, "watch",
		"Show it again after each change: nodes until interrupted, a status until no rollout is under way.").
		inShort("show it again after each change")
	again.short = "w"
	return []*option{again}
}

func historyOptions(s *settings) []*option {
	return []*option{
		textOption(&s.configMap, "configmap", "NAMESPACE/NAME",
			`ConfigMap with the records of drains. If not set, it is that of the agent in whose pod the command runs;
			elsewhere the only one of the cluster with the label node-drainer.io/history, for which you must be allowed to
			list ConfigMaps in all namespaces.`).
			checked(regexp.MustCompile(`^[a-z0-9-]+/[a-z0-9.-]+$`).MatchString, "NAMESPACE/NAME"),
	}
}

func outputOptions(s *settings) []*option {
	output := choice(into(&s.output), s.output, "output",
		`Format of the output. Auto: a live view on a terminal, otherwise text. Json: one document at the end.
		Ndjson: one object for each change.`,
		report.FormatAuto, report.FormatText, report.FormatJSON, report.FormatNDJSON)
	output.short, output.brief = "o", "format of the output"
	return []*option{
		output,
		textOption(&s.summaryFile, "summary-file", "FILE",
			"File for a summary in Markdown, also after a failure."),
	}
}

func awsOptions(s *settings) []*option {
	return []*option{
		textOption(&s.cloud.Region, "region", "REGION",
			"AWS Region, instead of AWS_REGION or the profile's.").inShort("AWS Region").
			checked(regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+$`).MatchString, "a Region, such as eu-central-1"),
		textOption(&s.cloud.Profile, "profile", "NAME",
			"Profile of the shared AWS configuration."),
		textOption(&s.cloud.RoleARN, "role-arn", "ARN",
			"IAM role to assume with these credentials.").
			checked(func(t string) bool { return strings.HasPrefix(t, "arn:") },
				"an ARN, for example arn:aws:iam::123456789012:role/rollouts"),
		textOption(&s.cloud.ExternalID, "external-id", "ID",
			"External id that the role requires.").with("--role-arn ARN"),
	}
}

func kubernetesOptions(s *settings) []*option {
	return []*option{
		textOption(&s.kubeconfig, "kubeconfig", "FILE",
			"Kubernetes configuration, instead of KUBECONFIG or the pod's ServiceAccount.").
			without("no-kubernetes").
			inShort("Kubernetes configuration, instead of KUBECONFIG"),
		textOption(&s.context, "context", "NAME",
			"Context of the Kubernetes configuration.").
			without("no-kubernetes"),
	}
}
