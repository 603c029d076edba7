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
			"Do not use Kubernetes. Nodes, their pods and budgets are not shown then.").
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
			`Groups of this cluster, by their tags kubernetes.io/cluster/NAME,
			k8s.io/cluster-autoscaler/NAME or eks:cluster-name. With --asg or --tag, only those of them in the cluster.`).
			limiting().inShort("all groups of this cluster, by their tags"),
		list(&s.tags, "tag", "KEY[=VALUE]",
			"Groups with this tag; KEY alone is any value. If repeated, a group must match all of them.").limiting().
			inShort("groups with this tag").
			checked(regexp.MustCompile(`^[^=]+(=.+)?$`).MatchString, "KEY=VALUE, or KEY alone for any value").
			without("nodegroup", "all-nodegroups"),
	}
}

func outdatedOptions(s *settings) []*option {
	return []*option{
		textOption(&s.Version, "launch-template-version", "VERSION",
			`Version of the launch template to replace instances by: a number, '$Latest' or '$Default', in quotes. If not
			set, it is the group's own, and in mode nodegroup '$Latest'. A refresh that succeeds sets it on the group.`).
			in(refresh.ModeRefresh, refresh.ModeNodegroup).
			inShort("version to replace instances by; the group's own if not set").
			checked(regexp.MustCompile(`^(\$Latest|\$Default|[1-9][0-9]*)$`).MatchString,
				"a number, '$Latest' or '$Default', in single quotes for the shell"),
		boolean(&s.All, "all",
			"Replace all instances, outdated or not. In mode refresh that is SkipMatching=false.").in(byGroups()...).
			inShort("replace all instances, outdated or not"),
		duration(into(&s.MaxAge), "", "max-age",
			"Age from which an instance is outdated, whatever it was launched from.",
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
			`How instances are replaced. Refresh starts an Instance Refresh, which AWS carries out without the trigger.
			Unhealthy marks outdated instances in batches, so that the group replaces them. Standby moves them into
			Standby in batches, and terminates them when their replacements are ready. Nodegroup has EKS update managed
			node groups.`,
			refresh.ModeRefresh, refresh.ModeUnhealthy, refresh.ModeStandby, refresh.ModeNodegroup).
			inShort("how instances are replaced"),
		amount(pointer(&s.surge), "", "surge",
			`Instances that are launched before as many are terminated: a number, or a percentage of the desired
			capacity, at least one. In mode refresh the default is 10%. In mode unhealthy the desired capacity is raised
			by it; by default it is not.`).in(refresh.ModeRefresh, refresh.ModeUnhealthy).
			inShort("instances that are launched before as many terminate"),
		duration(into(&s.ReadyTimeout), "", "ready-timeout",
			`Time after which a new instance in service whose node is missing or not Ready fails the rollout. A refresh is
			cancelled, or rolled back with --auto-rollback; in the other modes no further instance is replaced.`,
			time.Second, maxRefreshTime).onKubernetes().whileFollowing(),
		list(&s.Suspend, "suspend", "PROCESS",
			`Process of the groups to suspend during the rollout: AZRebalance, AlarmNotification or
			ScheduledActions. Processes that were suspended before stay suspended.`).
			in(byGroups()...).whileFollowing().
			checked(func(p string) bool { return slices.Contains(refresh.Suspendable(), p) },
				"one of "+strings.Join(refresh.Suspendable(), ", ")),
		choice(into(&s.Taint), s.Taint, "taint-outdated",
			`Taint on outdated nodes from the start of a rollout, which keeps new pods off them, so that each pod
			moves once. Soft has the effect PreferNoSchedule, hard NoSchedule; neither evicts pods.`,
			cluster.NoTaint, cluster.SoftTaint, cluster.HardTaint).in(byGroups()...).onKubernetes(),
		choice(into(&s.Until), s.Until, "until",
			`When a rollout has ended. Replaced: AWS reports success; old nodes may still be draining. Drained: no
			lifecycle hook holds an old instance any more. Terminated: all old instances have left the group.`,
			plan.Replaced, plan.Drained, plan.Terminated).whileFollowing(),
		allowOption(&s.Allow),
	}
}

// The modes that have something in common.
func byGroups() []refresh.Mode { return append([]refresh.Mode{refresh.ModeRefresh}, inBatches()...) }

func inBatches() []refresh.Mode { return []refresh.Mode{refresh.ModeUnhealthy, refresh.ModeStandby} }

// allowOption accepts names of checks only: a mistyped one would else be noticed when the preflight refuses.
func allowOption(p *[]string) *option {
	help := "Proceed even if this preflight check fails: " + alternatives(refresh.Allowable()) + "."
	o := list(p, "allow", "CHECK", help).inShort("proceed although this check of the preflight refuses")
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
			`Minimum percentage of the desired capacity that stays in service (MinHealthyPercentage), instead of
			--surge. With --max-healthy 100, instances are terminated before their replacements launch.`, 0, 100).
			in(refresh.ModeRefresh).without("surge"),
		number(pointer(&p.MaxHealthy), "", "max-healthy", "PERCENT",
			`Maximum percentage of the desired capacity that is in service or pending (MaxHealthyPercentage), at most 100
			above --min-healthy.`, 100, 200).in(refresh.ModeRefresh).with("--min-healthy 90"),
		seconds(pointer(&p.Warmup), "warmup",
			`Time that a new instance is in service before the next one is replaced (InstanceWarmup). If not set,
			it is the group's default.`, maxRefreshTime).in(refresh.ModeRefresh),
		checkpoints(&p.Checkpoints),
		seconds(pointer(&p.CheckpointDelay), "checkpoint-delay",
			"Time to wait at each checkpoint (CheckpointDelay). If not set, AWS waits 1h.", 48*time.Hour).
			in(refresh.ModeRefresh).with("--checkpoints 10,50,100"),
	}
}

func safetyOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		seconds(pointer(&p.Bake), "bake",
			"Time for which AWS watches the alarms after the last replacement (BakeTime).", 48*time.Hour).
			in(refresh.ModeRefresh),
		list(&p.Alarms, "alarm", "NAME",
			`CloudWatch alarm that fails the refresh. At most ten. A name with a comma must be in double quotes:
			'"High CPU, prod"'.`).in(refresh.ModeRefresh),
		boolean(&p.AutoRollback, "auto-rollback",
			`Roll back a refresh that fails. AWS does this. It needs a group that does not use $Latest or
			$Default.`).in(refresh.ModeRefresh),
		pinOption(s),
	}
}

func pinOption(s *settings) *option {
	o := choice(into(&s.Pin), s.Pin, "pin",
		`Send the number of the launch template version with the refresh, which can be rolled back only then. When
		it succeeds, AWS writes the number into the group, which does not follow $Latest or $Default any more. Auto
		does it if the group has a number, or if another version than the group's or a rollback is requested.`,
		refresh.PinAuto, refresh.PinAlways, refresh.PinNever).in(refresh.ModeRefresh)
	o.bare = string(refresh.PinAlways)
	return o
}

func exceptionOptions(s *settings) []*option {
	p := &s.Preferences
	return []*option{
		apiChoice(&p.Protected, "protected",
			`What to do about instances that are protected from scale in (ScaleInProtectedInstances). Wait fails
			after an hour. In the other modes only refresh replaces them.`,
			"refresh", "ignore", "wait").in(byGroups()...),
		apiChoice(&p.Standby, "standby",
			"What to do about instances in standby (StandbyInstances). Wait fails after an hour.",
			"terminate", "ignore", "wait").in(refresh.ModeRefresh),
		choice(into(&s.OnConflict), s.OnConflict, "on-conflict",
			`What to do if a refresh of the group is under way. Attach follows it if it has the same target, and
			fails otherwise. Wait waits for its end, then replaces what is still outdated. Cancel cancels it, without
			waiting for its drains, then does the same. Fail exits with 6.`,
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
			one.`).in(inBatches()...),
		amount(into(&p.Step), "", "surge-step",
			`Instances by which --surge raises the desired capacity at a time: a number, or a percentage, at least one.
			Each step begins when the nodes of the one before are Ready. If not set, all are launched at once.`).
			in(refresh.ModeUnhealthy).with("--surge 100%"),
		duration(into(&p.Between), "", "between",
			"Time between the end of a batch and the next one.", 0, 24*time.Hour).in(inBatches()...),
		choice(into(&p.Order), p.Order, "order",
			"Which instances are replaced first: the oldest, or one Availability Zone after the other.",
			refresh.ByAge, refresh.ByZone).in(inBatches()...),
		choice(into(&p.Then), p.Then, "then",
			`What happens to an instance in Standby when it is replaced. Terminate terminates it, and its hook has the
			agent drain the node. Stop has the agent drain the node, then stops the instance, which stays in Standby. Keep
			does not stop it.`,
			refresh.ThenTerminate, refresh.ThenStop, refresh.ThenKeep).in(refresh.ModeStandby).onKubernetes(),
	}
}

func autoscalerOptions(s *settings) []*option {
	return []*option{
		textOption(&s.autoscaler, "pause-autoscaler", "NAMESPACE/NAME",
			`Deployment of the Cluster Autoscaler to scale to 0 replicas from the first change to the end of the last
			group. If this run is killed, the next run with this flag scales it back, as do trigger resume, and the agent if
			AUTOSCALER_DEPLOYMENT names it. It is rarely needed: the agent protects new nodes.`).
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
			`Time without any change after which the trigger stops following. A running refresh continues. 0s is no
			limit.`,
			0, maxRefreshTime).whileFollowing(),
		choice(into(&s.OnInterrupt), s.OnInterrupt, "on-interrupt",
			`What to do when the trigger is interrupted. Detach leaves running refreshes to AWS. Cancel cancels
			them, and in mode unhealthy restores the desired capacity. Rollback rolls them back.`,
			plan.Detach, plan.Cancel, plan.Rollback).whileFollowing().
			valueIn(string(plan.Cancel), byGroups()...).valueIn(string(plan.Rollback), refresh.ModeRefresh),
	}
}

func timeOptions(s *settings) []*option {
	return []*option{
		duration(into(&s.Timeout), "", "timeout",
			`Time after which the trigger stops following. A running refresh continues. If not set, there is no
			limit.`,
			0, maxRefreshTime).whileFollowing().inShort("stop following after this time; a refresh continues"),
		duration(into(&s.PollInterval), shortDuration(s.PollInterval), "poll-interval",
			"Time between two reads from AWS.", 100*time.Millisecond, 10*time.Minute),
	}
}

func planOptions(s *settings) []*option {
	return []*option{
		boolean(&s.detailed, "detailed-exitcode",
			`Exit with 2 if a plan finds outdated instances, also those that a run would keep. If a run would be refused,
			the exit code is that of the run.`),
	}
}

func againOptions(s *settings) []*option {
	again := boolean(&s.follow, "watch",
		`Show it again after each change: nodes until interrupted; a status until no rollout is under way, with the exit
		code of the rollouts.`).inShort("show it again after each change")
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
		`Format of the output. Auto is a live view on a terminal, otherwise text. Json is one document: a plan,
		or the result. Ndjson is one object a line, as things happen.`,
		report.FormatAuto, report.FormatText, report.FormatJSON, report.FormatNDJSON)
	output.short, output.brief = "o", "format of the output"
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
			"AWS Region, instead of AWS_REGION or the profile's.").inShort("AWS Region").
			checked(regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+$`).MatchString, "a Region, such as eu-central-1"),
		textOption(&s.cloud.Profile, "profile", "NAME",
			"Profile of the shared AWS configuration."),
		textOption(&s.cloud.RoleARN, "role-arn", "ARN",
			"IAM role to assume with these credentials.").
			checked(func(t string) bool { return strings.HasPrefix(t, "arn:") },
				"an ARN, for example arn:aws:iam::123456789012:role/rollouts"),
		textOption(&s.cloud.ExternalID, "external-id", "ID",
			"External id that the trust policy of the role requires.").with("--role-arn ARN"),
	}
}

func kubernetesOptions(s *settings) []*option {
	return []*option{
		textOption(&s.kubeconfig, "kubeconfig", "FILE",
			"Kubernetes configuration, instead of KUBECONFIG or the ServiceAccount of the pod.").
			without("no-kubernetes").
			inShort("Kubernetes configuration, instead of KUBECONFIG"),
		textOption(&s.context, "context", "NAME",
			"Context of the Kubernetes configuration, instead of its current one.").
			without("no-kubernetes"),
	}
}
