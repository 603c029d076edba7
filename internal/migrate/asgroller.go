package migrate

import (
	"errors"
	"time"

	"go.yaml.in/yaml/v3"
)

// asgRoller is that of deitch, by its variables.
func asgRoller() Peer {
	return Peer{
		Name: "aws-asg-roller", Program: "aws-asg-roller",
		Reads:   "the manifest of its Deployment, or lines NAME=VALUE of its variables",
		Prints:  "values of the chart node-drainer, with a trigger watch",
		Example: "kubectl get deployment aws-asg-roller --output yaml | trigger migrate aws-asg-roller - >values.yaml",
		read:    containers{}.read, standard: "set it in `watch.extraEnv` and `extraEnv`, or give both a role",
		options: asgRollerVariables(),
		begin: func(r *Result) {
			r.set("watch.enabled", true)
			r.set("watch.options.surge", 1)
		},
		require: func(r *Result) {
			requireAgent(r)
			if !r.has("watch.options.asg") {
				r.required = append(r.required, "`watch.options.asg`")
			}
		},
	}
}

func asgRollerVariables() []option {
	return []option{
		{"ROLLER_ASG", translated(func(s setting, r *Result) error {
			names, err := words(s.node, ",")
			r.set("watch.options.asg", names)
			return err
		}, "watch.options.asg"), "or `watch.options.cluster`"},
		{"ROLLER_KUBERNETES=true", value("watch.options.noKubernetes", truth(nil, true)), "the agent drains in both cases"},
		{
			"ROLLER_DRAIN=true", value("watch.options.allow", truth(nil, []string{"no-terminating-hook"})),
			"groups without a hook are not drained",
		},
		{"ROLLER_DRAIN_FORCE=true", translated(func(s setting, r *Result) error {
			force, err := isTrue(s.node)
			if !force && err == nil {
				r.set("config.drain.atDeadline", "leave")
				r.set("config.drain.barePods", "wait")
			}
			return err
		}, "config.drain.atDeadline", "config.drain.barePods"), ""},
		{
			"ROLLER_DELETE_LOCAL_DATA=false", value("config.drain.emptydirPods", truth("evict", "wait")),
			"theirs would not terminate the instance",
		},
		{"ROLLER_IGNORE_DAEMONSETS=false", isUnneeded(), "DaemonSet pods that tolerate the taint stay"},
		{"ROLLER_INTERVAL=30s", value("watch.options.interval", interval), ""},
		{"ROLLER_CHECK_DELAY=30", isUnneeded(), "AWS replaces the instances"},
		{"ROLLER_CAN_INCREASE_MAX=false", value("watch.options.raiseMax", truth(true, nil)), "restored at the end"},
		{"ROLLER_ORIGINAL_DESIRED_ON_TAG=false", isUnneeded(), "the desired capacity does not change"},
		{"ROLLER_VERBOSE=false", value("watch.options.output", truth("ndjson", nil)), ""},
		{"KUBECONFIG", isUnneeded(), "it runs in the cluster"},
	}
}

// interval reads a duration as Go writes it.
func interval(n *yaml.Node) (any, error) {
	if d, err := time.ParseDuration(n.Value); err != nil || d <= 0 {
		return nil, errors.New("a duration, such as 30s")
	}
	return n.Value, nil
}
