package migrate

import (
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodeTerminationHandler is that of AWS, in queue processor mode, by the values of its chart.
func nodeTerminationHandler() Peer {
	return Peer{
		Name: "nth", Program: "aws-node-termination-handler", Reads: "the values of its Helm chart",
		Prints:  "values of the chart node-drainer",
		Example: "helm get values aws-node-termination-handler --output yaml | trigger migrate nth - >values.yaml",
		read:    readValues, require: requireAgent,
		options: slices.Concat(nthQueue(), nthEvents(), nthDrains(), nthMessages(), nthOutput(), nthPods()),
	}
}

// requireAgent records what the chart of the agent requires, and theirs does not know.
func requireAgent(r *Result) {
	r.required = append(r.required, "`config.clusterName`, the name of the cluster in the tags of its groups")
	if !r.has("config.queue.url") {
		r.required = append(r.required, "`config.queue.url`")
	}
}

func nthQueue() []option {
	return []option{
		{"enableSqsTerminationDraining", translated(func(s setting, r *Result) error {
			is, err := isTrue(s.node)
			if !is && err == nil {
				r.lack(s, "it reads the instance metadata: create a queue, or keep it")
			}
			return err
		}, "config.queue.url"), "always: there is no IMDS mode"},
		{"queueURL", value("config.queue.url", word), ""},
		{"awsRegion", value("aws.region", word), "not derived from the queue's URL"},
		{"awsEndpoint", isMissing(), "set AWS_ENDPOINT_URL in `extraEnv`"},
		{
			"awsAccessKeyID | awsSecretAccessKey", isMissing(),
			"give the agent a role: IRSA (`serviceAccount.roleARN`) or EKS Pod Identity",
		},
		{
			"checkTagBeforeDraining=true | checkASGTagBeforeDraining=true", isUnneeded(),
			"the cluster tags of the groups decide",
		},
		{
			"managedTag=aws-node-termination-handler/managed | managedAsgTag=aws-node-termination-handler/managed",
			isMissing(), "select by hook (`config.hook.names`) or node label (`config.node.selector`)",
		},
		{
			"workers=10 | sqsMsgVisibilityTimeoutSec=20 | deleteSqsMsgIfNodeNotFound=false", isUnneeded(),
			"a message costs only memory, and stays in flight until the instance is done",
		},
	}
}

func nthEvents() []option {
	rebalance := truth("drain", nil)
	return []option{
		{
			"enableSpotInterruptionDraining=true | enableScheduledEventDraining=true | enableASGLifecycleDraining", isUnneeded(),
			"for IMDS mode; with a queue your EventBridge rules decide, and `config.event`",
		},
		{
			"enableRebalanceMonitoring=false | enableRebalanceDraining=false",
			value("config.event.rebalanceRecommendation", rebalance), "with a queue theirs always drains; ours does so if told",
		},
		{"cordonOnly=false", translated(cordonOnly, "config.event"), "hooks are always drained"},
	}
}

// cordonOnly has notices only cordon, as the events that theirs knows do.
func cordonOnly(s setting, r *Result) error {
	is, err := isTrue(s.node)
	if !is || err != nil {
		return err
	}
	for _, kind := range []string{"spotInterruption", "scheduledChange", "stateChange", "rebalanceRecommendation"} {
		r.set("config.event."+kind, "cordon")
	}
	r.lack(s, "notices only cordon (`config.event`), but nodes of lifecycle hooks are always drained")
	return nil
}

func nthDrains() []option {
	const timeout = "config.drain.timeout"
	return []option{
		{"taintNode=false", isUnneeded(), "the agent always does it"},
		{
			"taintEffect=NoSchedule", value("config.node.taintEffect", oneOf("NoSchedule", "PreferNoSchedule", "NoExecute")),
			"",
		},
		{"excludeFromLoadBalancers=false", value("config.node.excludeFromLoadBalancers", truth("early", "off")), ""},
		{
			"enableOutOfServiceTaint=false", isMissing(),
			"the agent waits until volumes are detached (`config.drain.volumeTimeout`)",
		},
		{"deleteLocalData=true", value("config.drain.emptydirPods", truth("evict", "wait")), ""},
		{"ignoreDaemonSets=true", isUnneeded(), "DaemonSet pods that tolerate the taint stay"},
		{
			"podTerminationGracePeriod=-1 | gracePeriod=-1", isMissing(),
			"set terminationGracePeriodSeconds of the pods: only the deadline shortens it",
		},
		{"nodeTerminationGracePeriod=120", translated(func(s setting, r *Result) error {
			if s.node.Value == "120" { // After it theirs tries again.
				r.skip(s, "one drain until `config.drain.timeout`, 1h")
				return nil
			}
			return value(timeout, seconds).apply(option{}, s, r)
		}, timeout), "one drain until this deadline; 120 is not translated"},
		{
			"heartbeatUntil=172800", value(timeout, seconds),
			"heartbeats end with the drain",
		},
		{"heartbeatInterval=-1", value("config.hook.heartbeatInterval", seconds), ""},
		{
			"completeLifecycleActionDelaySeconds=-1", value("config.drain.loadBalancerWait", seconds),
			"counts from the taint; pods leave meanwhile",
		},
	}
}

func nthMessages() []option {
	return []option{
		{
			"webhookURL", isMissing(),
			"store it in a Secret under the key url, and set `notify.existingSecret.name`",
		},
		{"webhookURLSecretName", translated(func(s setting, r *Result) error {
			name, err := word(s.node)
			r.set("notify.existingSecret.name", name)
			r.set("notify.existingSecret.key", "webhookurl")
			return err
		}, "notify.existingSecret"), ""},
		{
			`webhookHeaders={"Content-type":"application/json"}`, isMissing(),
			"add it to that Secret, and set `notify.existingSecret.headersKey`",
		},
		{"webhookProxy", isMissing(), "set HTTPS_PROXY in `extraEnv`, which applies to AWS as well"},
		{
			"webhookTemplate | webhookTemplateFile | webhookTemplateConfigMapName | webhookTemplateConfigMapKey", isMissing(),
			"write it with our fields as `config.notify.template`",
		},
		{"kubernetesEventsExtraAnnotations", isMissing(), "Events have no annotations"},
		{"emitKubernetesEvents=false", isUnneeded(), "the agent always does it"},
	}
}

func nthOutput() []option {
	const monitor = "metrics.serviceMonitor."
	return []option{
		{"logLevel=info", value("config.log.level", level), ""},
		{"jsonLogging=false", value("config.log.format", truth("json", "console")), ""},
		{"dryRun=false", value("config.dryRun", truth(true, false)), "use a separate queue"},
		{"podMonitor.create=false", value("metrics.podMonitor.enabled", truth(true, false)), ""},
		{"serviceMonitor.create=false", value(monitor+"enabled", truth(true, false)), ""},
		{"podMonitor.namespace | serviceMonitor.namespace", value(monitor+"namespace", word), ""},
		{"podMonitor.labels | serviceMonitor.labels", value(monitor+"labels", labels), ""},
		{"podMonitor.interval=30s | serviceMonitor.interval=30s", value(monitor+"interval", word), ""},
		{"podMonitor.sampleLimit=5000 | serviceMonitor.sampleLimit=5000", value(monitor+"sampleLimit", whole), ""},
		{
			"enablePrometheusServer=false | prometheusServerPort=9092 | enableProbesServer=false | probesServerPort=8080 | " +
				"probesServerEndpoint=/healthz | probes", isUnneeded(), "served always, at `config.listenAddress`",
		},
	}
}

func nthPods() []option {
	return []option{
		{"replicas=1", translated(func(s setting, r *Result) error {
			n, err := number(s.node)
			if err == nil && n > 1 {
				r.set("replicas", n)
			}
			return err
		}, "replicas"), "one leads, so two by default"},
		{"tolerations", translated(tolerations, "tolerations"), "those with a key"},
		{"affinity | linuxAffinity", translated(affinity, "affinity"), "for nodes, not for pods"},
		{"nodeSelector | linuxNodeSelector", value("nodeSelector", labels), ""},
		{"podAnnotations | linuxPodAnnotations", value("podAnnotations", labels), ""},
		{"podLabels | linuxPodLabels", value("podLabels", labels), ""},
		{"customLabels", value("commonLabels", labels), ""},
		{"priorityClassName", value("priorityClassName", word), ""},
		{"podDisruptionBudget.maxUnavailable", value("podDisruptionBudget.maxUnavailable", countOrPercent), ""},
		{"podDisruptionBudget.minAvailable", isMissing(), "set `podDisruptionBudget.maxUnavailable`"},
		{"image.pullSecrets", translated(pullSecrets, "imagePullSecrets"), ""},
		{"serviceAccount.create", value("serviceAccount.create", truth(true, false)), ""},
		{"serviceAccount.name", value("serviceAccount.name", word), ""},
		{"serviceAccount.annotations", value("serviceAccount.annotations", labels), "or `serviceAccount.roleARN`"},
		{"rbac.create", value("rbac.create", truth(true, false)), ""},
		{"dnsPolicy", value("dnsPolicy", word), ""},
		{"dnsConfig", value("dnsConfig", object), ""},
		{"extraEnv", translated(extraEnv, "extraEnv"), "of the AWS SDK, Go and proxies"},
		{
			"image.repository | image.tag | image.pullPolicy | nameOverride | fullnameOverride | resources | " +
				"securityContext | podSecurityContext | topologySpreadConstraints | strategy | " +
				"terminationGracePeriodSeconds", isUnneeded(),
			"for pods of theirs; ours have their own",
		},
		{
			"useProviderId | useAPIServerCacheToListPods | logFormatVersion | nodeName | podName | instanceMetadataURL | " +
				"metadataTries | procUptimeFile | uptimeFromFile | useHostNetwork | targetNodeOs | updateStrategy | " +
				"linuxUpdateStrategy | windowsUpdateStrategy | daemonsetPriorityClassName | daemonsetNodeSelector | " +
				"linuxTolerations | windowsTolerations | daemonsetTolerations | daemonsetAffinity | linuxResources | " +
				"windowsResources | windowsAffinity | windowsNodeSelector | windowsPodAnnotations | windowsPodLabels | " +
				"linuxDnsPolicy | windowsDnsPolicy | nodeSelectorTermsOs | nodeSelectorTermsArch | rbac.pspEnabled", isUnneeded(),
			"for IMDS mode or Windows, or internal",
		},
	}
}

// whole reads a whole number as it is.
func whole(n *yaml.Node) (any, error) {
	i, err := number(n)
	return i, err
}

// countOrPercent reads a number, or a percentage.
func countOrPercent(n *yaml.Node) (any, error) {
	if digits, is := strings.CutSuffix(n.Value, "%"); is {
		_, err := number(scalar(digits, n.Line))
		return n.Value, err
	}
	return whole(n)
}

// tolerations takes those with a key: our chart refuses one of all taints.
func tolerations(s setting, r *Result) error {
	if s.node.Kind != yaml.SequenceNode {
		return errors.New("a list")
	}
	var all []any
	for _, one := range s.node.Content {
		if key := field(one, "key"); key != nil && key.Value != "" {
			all = append(all, plain(one))
			continue
		}
		r.lack(setting{name: s.name, node: one},
			"one of every taint would start the agent on a terminating node: name the taints of its nodes in `tolerations`")
	}
	if len(all) > 0 {
		r.set("tolerations", all)
	}
	return nil
}

// affinity takes that for nodes: the other names pods of theirs.
func affinity(s setting, r *Result) error {
	if s.node.Kind != yaml.MappingNode {
		return errors.New("a map")
	}
	for key, below := range pairs(s.node) {
		if key.Value == "nodeAffinity" {
			r.set("affinity", map[string]any{key.Value: plain(below)})
		} else {
			r.lack(setting{name: s.name + "." + key.Value, node: key},
				"it names pods of theirs; without `affinity` ours prefer different nodes")
		}
	}
	return nil
}

// pullSecrets takes names, and objects with a name.
func pullSecrets(s setting, r *Result) error {
	var all []any
	for _, one := range s.node.Content {
		if name := field(one, "name"); name != nil {
			one = name
		}
		if _, err := word(one); err != nil || one.Value == "" {
			return errors.New("a list of names")
		}
		all = append(all, map[string]any{"name": one.Value})
	}
	r.set("imagePullSecrets", all)
	return nil
}

// isStandard reports whether a variable is one of the AWS SDK, the Go runtime or proxies.
func isStandard(name string) bool {
	return strings.HasPrefix(name, "AWS_") || slices.Contains([]string{
		"GOGC", "GODEBUG", "GOMAXPROCS", "GOMEMLIMIT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
	}, strings.ToUpper(name))
}

// extraEnv takes the variables that our agent reads, too.
func extraEnv(s setting, r *Result) error {
	if s.node.Kind != yaml.SequenceNode {
		return errors.New("a list")
	}
	var all []any
	for _, one := range s.node.Content {
		name := field(one, "name")
		switch {
		case name == nil || name.Kind != yaml.ScalarNode:
			return errors.New("a list of variables with names")
		case isStandard(name.Value):
			all = append(all, plain(one))
		default:
			r.lack(setting{name: s.name + "." + name.Value, node: one},
				"it is a variable of theirs: translate the value of the chart that stands for it")
		}
	}
	if len(all) > 0 {
		r.set("extraEnv", all)
	}
	return nil
}
