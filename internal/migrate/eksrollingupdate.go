package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// eksRollingUpdate is that of HelloFresh, by its variables and flags.
func eksRollingUpdate() Peer {
	c := containers{short: map[string]string{"-c": "--cluster_name", "-p": "--plan"}, bare: []string{"--plan"}}
	return Peer{
		Name: "eks-rolling-update", Program: "eks-rolling-update",
		Reads:  "its .env file with lines NAME=VALUE, or the manifest of its Job or CronJob",
		Prints: "a command line of the trigger", Example: "trigger migrate eks-rolling-update .env",
		read: c.read, options: eksRollingUpdateOptions(),
		begin: func(r *Result) {
			r.add("trigger")
			if _, given := r.given["RUN_MODE"]; !given {
				r.given["RUN_MODE"] = setting{name: "RUN_MODE", node: scalar("1", 1)}
			}
		},
		require: func(r *Result) {
			if !slices.Contains(r.command, "--cluster") && !slices.Contains(r.command, "--asg") {
				r.required = append(r.required, "`--cluster` NAME")
			}
			r.add("--raise-max") // as theirs does if it must
		},
	}
}

// allRunModes are the flags of the trigger for each run mode.
const allRunModes = "--mode unhealthy --surge 100% --taint-outdated hard"

// RunMode is one of eks-rolling-update.
type RunMode struct {
	Number string
	theirs string // what it does
	flags  string // besides those for each
	first  string // what is done in all groups before the first instance terminates
}

// Flags are those of the trigger that do the same.
func (m RunMode) Flags() []string { return strings.Fields(allRunModes + " " + m.flags) }

// RunModes returns all of them.
func RunModes() []RunMode {
	return []RunMode{
		{"1", "each group in turn: scale up, cordon its outdated nodes, drain them", "", "the preflight"},
		{
			"2", "scale up and cordon all groups, then drain one after the other", "--together check,taint,surge",
			"the preflight, the taints, and all new nodes are Ready",
		},
		{
			"3", "cordon all groups, then scale up and drain one after the other", "--together check,taint",
			"the preflight and the taints",
		},
		{"4", "as 1, for nodes that are too old", "--max-age 144h", "the preflight"},
	}
}

func eksRollingUpdateOptions() []option {
	return slices.Concat(eksRollingUpdateTargets(), eksRollingUpdatePace(), []option{
		{"AWS_DEFAULT_REGION", argument("--region", word), "or AWS_REGION"},
		{"K8S_CONTEXT", argument("--context", word), ""},
		{"KUBECONFIG", isUnneeded(), "read as well"},
		{"K8S_PROXY_BYPASS=false", isMissing(), "set NO_PROXY to the host of the API server"},
		{"K8S_AUTOSCALER_ENABLED=false", translated(func(s setting, r *Result) error {
			is, err := isTrue(s.node)
			if is && err == nil {
				r.add("--pause-autoscaler", r.text("K8S_AUTOSCALER_NAMESPACE", "default")+"/"+
					r.text("K8S_AUTOSCALER_DEPLOYMENT", "cluster-autoscaler"))
			}
			return err
		}, "--pause-autoscaler"), "rarely needed: new nodes [are protected](../rollout-modes.md#cluster-autoscaler)"},
		{"K8S_AUTOSCALER_NAMESPACE=default | K8S_AUTOSCALER_DEPLOYMENT=cluster-autoscaler", part(), "as above"},
		{
			"K8S_AUTOSCALER_REPLICAS=2 | CLUSTER_HEALTH_WAIT=90 | CLUSTER_HEALTH_RETRY=1 | GLOBAL_MAX_RETRY=12 | " +
				"GLOBAL_HEALTH_WAIT=20 | TAINT_NODES=false", isUnneeded(), "what is there decides, not a time",
		},
		{"ASG_DESIRED_STATE_TAG | ASG_ORIG_CAPACITY_TAG | ASG_ORIG_MAX_CAPACITY_TAG", isUnneeded(), "it has tags of its own"},
		{"ASG_USE_TERMINATION_POLICY=false", isMissing(), "the trigger chooses by `--order`"},
		{"INSTANCE_WAIT_FOR_STOPPING=false", argument("--until", truth("terminated", nil)), ""},
		{
			"EXTRA_DRAIN_ARGS", isMissing(),
			"the agent drains: set `config.drain.barePods`, `config.drain.emptydirPods` and `config.drain.timeout` of its chart",
		},
		{"ENFORCED_DRAINING=false", isUnneeded(), "the agent does so at the deadline (`config.drain.atDeadline`)"},
	})
}

func eksRollingUpdateTargets() []option {
	return []option{
		{"--plan | DRY_RUN=false", translated(func(s setting, r *Result) error {
			is, err := isTrue(s.node)
			if is && err == nil && !slices.Contains(r.command, "plan") {
				r.add("plan")
			}
			return err
		}, "trigger plan"), ""},
		{"--cluster_name", argument("--cluster", word), ""},
		{"ASG_NAMES", translated(func(s setting, r *Result) error {
			names, err := words(s.node, " ")
			r.add("--asg", strings.Join(names, ","))
			return err
		}, "--asg"), ""},
		{"RUN_MODE=1", translated(runMode, "--mode", "--surge", "--taint-outdated", "--together"), "[run modes](#run-modes)"},
		{"MAX_ALLOWABLE_NODE_AGE=6", translated(func(s setting, _ *Result) error {
			_, err := number(s.node)
			return err
		}, "--max-age"), "in run mode 4"},
		{"EXCLUDE_NODE_LABEL_KEYS=spotinst.io/node-lifecycle", translated(func(s setting, r *Result) error {
			names, err := words(s.node, " ")
			for _, name := range names {
				r.add("--exclude-node-label", name)
			}
			return err
		}, "--exclude-node-label"), ""},
	}
}

// runMode adds the flags of a run mode.
func runMode(s setting, r *Result) error {
	modes := RunModes()
	i := slices.IndexFunc(modes, func(m RunMode) bool { return m.Number == s.node.Value })
	if i < 0 {
		return errors.New("a number from 1 to 4")
	}
	for _, word := range modes[i].Flags() {
		if days := r.text("MAX_ALLOWABLE_NODE_AGE", ""); days != "" && word == "144h" {
			word = days + "d"
		}
		r.add(word)
	}
	return nil
}

func eksRollingUpdatePace() []option {
	return []option{
		{"BATCH_SIZE=0", argument("--surge-step", func(n *yaml.Node) (any, error) {
			i, err := number(n)
			if err != nil || i <= 0 {
				return nil, err
			}
			return i, nil
		}), "nodes that it launches at a time; `--batch` are drained at a time"},
		{"BETWEEN_NODES_WAIT=0", argument("--between", seconds), ""},
	}
}

// part is for an option that another one is translated with.
func part() conversion {
	return translated(func(s setting, _ *Result) error {
		if _, err := word(s.node); err != nil {
			return fmt.Errorf("a name: %w", err)
		}
		return nil
	}, "--pause-autoscaler")
}
