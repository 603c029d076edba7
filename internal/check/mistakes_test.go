package check_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/check"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/node"
)

// mistake is planted in what was read of a good installation.
type mistake struct {
	name   string
	plant  func(f *check.Facts)
	status check.Status
	check  string
	found  []string // parts of the one result with the status
	fix    []string
}

func hookOf(f *check.Facts) *autoscaling.InspectedHook { return &f.Groups[1].Hooks[0] }

// mistakesInAWS are mistakes of queue, groups and hooks.
func mistakesInAWS() []mistake {
	return []mistake{
		{
			"no credentials", func(f *check.Facts) {
				f.IdentityErr, f.User = fmt.Errorf("%w: none", cloud.ErrNoCredentials), "system:serviceaccount:kube-system:agents"
			},
			check.Failed, "credentials",
			[]string{"no AWS credentials"},
			[]string{
				"create-pod-identity-association", "--cluster-name demo --namespace kube-system --service-account agents --role-arn",
				"kubectl rollout restart --namespace kube-system deployment/node-drainer; with IRSA: helm upgrade node-drainer " +
					"charts/node-drainer --namespace kube-system --reset-then-reuse-values --set serviceAccount.roleARN=ROLE_ARN",
			},
		},
		{
			"credentials of the node", func(f *check.Facts) { f.Identity.Provider = "EC2RoleProvider" },
			check.Warning, "credentials",
			[]string{"those of the node"},
			[]string{"create-pod-identity-association"},
		},
		{
			"QUEUE_URL of another Region", func(f *check.Facts) { f.Region, f.Nodes.Zones = "eu-west-1", nil },
			check.Failed, "queue",
			[]string{"Region eu-central-1", "calls AWS in eu-west-1"},
			[]string{"--set aws.region=eu-central-1"},
		},
		{
			"AWS will change a setting", func(f *check.Facts) {
				f.Settings = []autoscaling.AccountSetting{{
					Name: "launchBeforeTerminate", Value: "disabled", Enforced: "enabled", EnforcedAt: f.Now.Add(89 * 24 * time.Hour),
				}}
			},
			check.Warning, "account",
			[]string{`AWS sets launchBeforeTerminate to "enabled" on 2026-03-31`},
			[]string{"put-account-setting --region eu-central-1 --name launchBeforeTerminate --value enabled"},
		},
		{
			"settings may not be read", func(f *check.Facts) { f.SettingsErr = refusal("AccessDenied") },
			check.NotChecked, "account",
			[]string{"denies autoscaling:DescribeAccountSettings", "only this check"},
			[]string{"put-role-policy"},
		},
		{
			"no queue", func(f *check.Facts) { f.QueueErr = refusal("QueueDoesNotExist") },
			check.Failed, "queue",
			[]string{"does not exist"},
			[]string{"aws sqs get-queue-url --region eu-central-1 --queue-name node-drainer"},
		},
		{
			"queue may not be read", func(f *check.Facts) { f.QueueErr = refusal("AccessDeniedException") },
			check.Failed, "queue",
			[]string{"denies sqs:GetQueueAttributes", "does not exist, or the permission is missing"},
			[]string{"put-role-policy --role-name agent", `"Resource":"` + queueARN + `"`},
		},
		{
			"queue is not reached", func(f *check.Facts) { f.QueueErr = fmt.Errorf("no route") },
			check.Failed, "queue",
			[]string{"no route"},
			[]string{"https://sqs.eu-central-1.amazonaws.com"},
		},
		{
			"FIFO queue", func(f *check.Facts) { f.Queue.FIFO = true },
			check.Failed, "queue",
			[]string{"FIFO"},
			[]string{"aws sqs create-queue"},
		},
		{
			"short retention", func(f *check.Facts) { f.Queue.Retention = time.Minute },
			check.Warning, "queue",
			[]string{"after 1m0s"},
			[]string{"MessageRetentionPeriod=1209600"},
		},
		{
			"few receives", func(f *check.Facts) { f.Queue.MaxReceives = 3 },
			check.Warning, "queue",
			[]string{"after 3 receives"},
			[]string{"maxReceiveCount to 100"},
		},
		{
			"policy without EventBridge", func(f *check.Facts) { f.Queue.Policy = "" },
			check.Warning, "queue policy",
			[]string{"does not let EventBridge"},
			[]string{"set-queue-attributes", `events.amazonaws.com`},
		},
		{
			"policy without EventBridge, which a hook needs", func(f *check.Facts) {
				f.Queue.Policy, hookOf(f).Target = "", ""
				f.Rules = append(f.Rules, lifecycleRule())
			},
			check.Failed, "queue policy",
			[]string{"does not let EventBridge"},
			[]string{"set-queue-attributes"},
		},
		{
			"role of the hook may not send", func(f *check.Facts) { hookOf(f).RoleARN = "arn:aws:iam::123456789012:role/own" },
			check.Failed, "queue policy",
			[]string{"role/own", "group workers"},
			[]string{"senders"},
		},
		{
			"key of SQS", func(f *check.Facts) { f.Queue.Key = "alias/aws/sqs" },
			check.Warning, "encryption",
			[]string{"EventBridge cannot use"},
			[]string{"SqsManagedSseEnabled"},
		},
		{
			"key of a customer", func(f *check.Facts) { f.Queue.Key = "1234" },
			check.NotChecked, "encryption",
			[]string{"the policy of the key 1234"},
			[]string{"aws kms get-key-policy"},
		},
		{
			"no tag", func(f *check.Facts) {
				f.Others, f.Groups = []autoscaling.InspectedGroup{{Name: "workers", Instances: []string{"i-1"}}}, nil
			},
			check.Failed, "groups",
			[]string{"1 node is in group workers, which has no tag of the cluster demo"},
			[]string{"create-or-update-tags", "ResourceId=workers", "Key=kubernetes.io/cluster/demo,Value=owned"},
		},
		{
			"no tag of a group whose name a shell would run", func(f *check.Facts) {
				f.Others, f.Groups = []autoscaling.InspectedGroup{{Name: "$(reboot)", Instances: []string{"i-1"}}}, nil
			},
			check.Failed, "groups",
			[]string{"in group $(reboot), which has no tag"},
			[]string{"ResourceId='$(reboot)',ResourceType"},
		},
		{
			"name of another cluster, which a shell would run", func(f *check.Facts) {
				f.Others = []autoscaling.InspectedGroup{{Name: "workers", Clusters: []string{"a;reboot"}, Instances: []string{"i-1", "i-2"}}}
			},
			check.Failed, "groups",
			[]string{"name the cluster a;reboot"},
			[]string{"--set 'config.clusterName=a;reboot'"},
		},
		{
			"name of another cluster", func(f *check.Facts) {
				f.Others = []autoscaling.InspectedGroup{{Name: "workers", Clusters: []string{"prod"}, Instances: []string{"i-1", "i-2"}}}
			},
			check.Failed, "groups",
			[]string{"2 nodes are in group workers", "name the cluster prod", "CLUSTER_NAME is demo"},
			[]string{"--set config.clusterName=prod"},
		},
		{
			"no group at all", func(f *check.Facts) { f.Groups = nil },
			check.Failed, "groups",
			[]string{"no Auto Scaling group in eu-central-1"},
			[]string{"create-or-update-tags"},
		},
		{
			"groups may not be read", func(f *check.Facts) { f.GroupsErr = refusal("AccessDenied") },
			check.Failed, "groups",
			[]string{"denies autoscaling:DescribeAutoScalingGroups"},
			[]string{"put-role-policy"},
		},
	}
}

// mistakesOfHooks are mistakes of hooks and permissions.
func mistakesOfHooks() []mistake {
	return []mistake{
		{
			"no hook", func(f *check.Facts) { f.Groups[1].Hooks = nil },
			check.Failed, "hooks",
			[]string{"group workers has no terminating lifecycle hook"},
			[]string{"put-lifecycle-hook", "--auto-scaling-group-name workers --lifecycle-hook-name drain", queueARN, hookRole},
		},
		{
			"hook of another name", func(f *check.Facts) { hookOf(f).Name, hookOf(f).Target = "other", "" },
			check.Failed, "hooks",
			[]string{"of HOOK_NAMES (drain,node-drainer-launching); it has other"},
			[]string{"--lifecycle-hook-name drain"},
		},
		{
			"hook that HOOK_NAMES lacks", func(f *check.Facts) { hookOf(f).Name = "other" },
			check.Failed, "hooks",
			[]string{"the hook other of group workers sends to the queue"},
			[]string{"'config.hook.names={drain,node-drainer-launching,other}'"},
		},
		{
			"hook of another queue", func(f *check.Facts) { hookOf(f).Target = queueARN + "-2" },
			check.Failed, "hooks",
			[]string{"sends to " + queueARN + "-2"},
			[]string{"--notification-target-arn " + queueARN + " "},
		},
		{
			"hooks may not be read", func(f *check.Facts) { f.Groups[0].HooksErr = refusal("AccessDenied") },
			check.Failed, "hooks",
			[]string{"denies autoscaling:DescribeLifecycleHooks"},
			[]string{"put-role-policy"},
		},
		{
			"short heartbeat timeout", func(f *check.Facts) {
				hookOf(f).Timing = autoscaling.Timing{Heartbeat: 30 * time.Second, Global: 50 * time.Minute}
			},
			check.Warning, "hooks",
			[]string{"for 30s without an agent, and for 50m0s in all"},
			[]string{"--heartbeat-timeout 120"},
		},
		{
			"ABANDON beside another hook", func(f *check.Facts) {
				hookOf(f).Default = autoscaling.Abandon
				other := *hookOf(f)
				other.Name = "other"
				f.Groups[1].Hooks = append(f.Groups[1].Hooks, other)
			},
			check.Warning, "hooks",
			[]string{"ABANDON"},
			[]string{"--default-result CONTINUE"},
		},
		{
			"launching hook of one group only", func(f *check.Facts) {
				launch := *hookOf(f)
				launch.Name, launch.Transition = "node-drainer-launching", autoscaling.Launching
				f.Groups[1].Hooks = append(f.Groups[1].Hooks, launch)
			},
			check.Warning, "hooks",
			[]string{"group spot has no launching hook"},
			[]string{"--auto-scaling-group-name spot --lifecycle-hook-name node-drainer-launching", "EC2_INSTANCE_LAUNCHING"},
		},
		{
			"may not complete", func(f *check.Facts) { f.Trials[0].Err = refusal("AccessDenied") },
			check.Failed, "permissions",
			[]string{"denies autoscaling:CompleteLifecycleAction on group spot"},
			[]string{"put-role-policy --role-name agent", "autoScalingGroup:*", "aws:ResourceTag/kubernetes.io/cluster/demo"},
		},
		{
			"may not complete for a group with another tag", func(f *check.Facts) {
				f.Trials[0].Err, f.Groups[0].Tags = refusal("AccessDenied"), map[string]string{"eks:cluster-name": "demo"}
			},
			check.Failed, "permissions",
			[]string{"denies autoscaling:CompleteLifecycleAction on group spot"},
			[]string{"create-or-update-tags", "ResourceId=spot"},
		},
		{
			"no permission for events that may never come", func(f *check.Facts) {
				f.Trials[1] = check.Trial{Action: check.ActionSpot, Err: refusal("UnauthorizedOperation")}
			},
			check.Warning, "permissions",
			[]string{"denies ec2:DescribeSpotInstanceRequests", "verify Spot interruptions"},
			[]string{"put-role-policy", "config.event.spotInterruption=ignore"},
		},
		{
			"no permission to verify maintenance", func(f *check.Facts) {
				f.Trials[1] = check.Trial{Action: check.ActionStatus, Err: refusal("UnauthorizedOperation")}
			},
			check.Warning, "permissions",
			[]string{"verify maintenance"},
			[]string{"config.event.scheduledChange=ignore"},
		},
		{
			"no permission for a call that reads", func(f *check.Facts) { f.Trials[1].Err = refusal("AccessDenied") },
			check.Failed, "permissions",
			[]string{"denies autoscaling:DescribeTags"},
			[]string{`"Resource":"*"`},
		},
	}
}

// mistakesInCluster are mistakes in Kubernetes.
func mistakesInCluster() []mistake {
	deny := func(verb, resource string) func(f *check.Facts) {
		return func(f *check.Facts) {
			i := slices.IndexFunc(f.Reviews, func(r check.Review) bool { return r.Verb == verb && r.Resource == resource })
			f.Reviews[i].Allowed = false
		}
	}
	return []mistake{
		{
			"two nodes of one instance", func(f *check.Facts) {
				f.Nodes.Claims = []node.Claim{{InstanceID: "i-1", Nodes: []string{"a", "b"}}}
			},
			check.Warning, "nodes",
			[]string{"a and b claim instance i-1"},
			[]string{"kubectl delete node NAME"},
		},
		{
			"nodes cannot be listed", func(f *check.Facts) { f.NodesErr = fmt.Errorf("too late") },
			check.Failed, "nodes",
			[]string{"cannot list the nodes: too late"},
			[]string{"kubectl get --raw '/api/v1/nodes?limit=500'"},
		},
		{
			"nodes may not be watched", func(f *check.Facts) {
				deny("watch", "nodes")(f)
				f.NodesErr = fmt.Errorf("too late")
			},
			check.Failed, "rbac",
			[]string{"may not watch nodes"},
			[]string{"--verb=watch --resource=nodes"},
		},
		{
			"nodes of an API server that does not answer", func(f *check.Facts) {
				f.NodesErr, f.Reviews = fmt.Errorf("too late"), []check.Review{{Err: fmt.Errorf("connection refused")}}
			},
			check.NotChecked, "nodes",
			[]string{"the nodes: the API server does not answer"},
			nil,
		},
		{
			"selector without nodes", func(f *check.Facts) { f.Nodes, f.Config.Node.Selector = node.Survey{All: 3}, "pool=x" },
			check.Failed, "nodes",
			[]string{"NODE_SELECTOR (pool=x) selects none of 3 nodes"},
			[]string{"--set config.node.selector=SELECTOR"},
		},
		{
			"nodes without instances", func(f *check.Facts) {
				f.Nodes = node.Survey{All: 1, Selected: 1, WithoutInstance: []string{"kind"}}
			},
			check.Failed, "nodes",
			[]string{"no node has the provider ID"},
			[]string{"kubectl get nodes"},
		},
		{
			"nodes of another Region", func(f *check.Facts) { f.Nodes.Zones = []string{"eu-west-1b"} },
			check.Failed, "nodes",
			[]string{"nodes are in eu-west-1b"},
			[]string{"--set aws.region=eu-west-1"},
		},
		{
			"nodes of another account", func(f *check.Facts) { f.Known = nil },
			check.Failed, "nodes",
			[]string{"knows none of the 1 instance", "account 123456789012"},
			[]string{"aws.region="},
		},
		{
			"an unknown instance", func(f *check.Facts) { f.Nodes.Instances = append(f.Nodes.Instances, "i-2") },
			check.Warning, "nodes",
			[]string{"does not know i-2"},
			[]string{"kubectl get nodes"},
		},
		{
			"instances may not be read", func(f *check.Facts) { f.KnownErr = refusal("UnauthorizedOperation") },
			check.Failed, "nodes",
			[]string{"denies ec2:DescribeInstances"},
			[]string{"put-role-policy"},
		},
		{
			"no evictions", deny("create", "pods/eviction"),
			check.Failed, "rbac",
			[]string{"system:serviceaccount:kube-system:node-drainer may not create pods/eviction"},
			[]string{"create clusterrole node-drainer-create-pods-eviction", "--serviceaccount=kube-system:node-drainer"},
		},
		{
			"no cordon", deny("patch", "nodes"),
			check.Failed, "rbac",
			[]string{"may not patch nodes"},
			[]string{"--verb=patch --resource=nodes"},
		},
		{
			"no Lease", deny("update", "leases"),
			check.Failed, "rbac",
			[]string{"update leases.coordination.k8s.io node-drainer in namespace kube-system"},
			[]string{"create role ", "--namespace kube-system", "--resource-name=node-drainer"},
		},
		{
			"the API server does not answer", func(f *check.Facts) { f.Reviews[0].Err = fmt.Errorf("no answer") },
			check.Failed, "rbac",
			[]string{"no answer"},
			[]string{"kubectl get --raw /readyz"},
		},
	}
}
