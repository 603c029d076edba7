package migrate

import (
	"fmt"
	"time"
)

// lifecycleManager is that of keikoproj, by the flags of serve in its Deployment.
func lifecycleManager() Peer {
	c := containers{bare: []string{"--with-deregister", "--refresh-expired-credentials"}}
	return Peer{
		Name: "lifecycle-manager", Program: "lifecycle-manager",
		Reads:  "the manifest of its Deployment, whose arguments have the flags of serve",
		Prints: "values of the chart node-drainer",
		Example: "kubectl get deployment lifecycle-manager --output yaml | " +
			"trigger migrate lifecycle-manager - >values.yaml",
		read: c.read, standard: "set it in `extraEnv`",
		require: requireAgent, options: lifecycleManagerFlags(),
	}
}

func lifecycleManagerFlags() []option {
	const timeout = "config.drain.timeout"
	return []option{
		{"--region", value("aws.region", word), ""},
		{"--queue-name", translated(func(s setting, r *Result) error {
			name, err := word(s.node)
			r.required = append(r.required, fmt.Sprintf("the URL of the queue %v (aws sqs get-queue-url)", name))
			return err
		}, "config.queue.url"), "the URL, not the name"},
		{"--log-level=info", value("config.log.level", level), ""},
		{"--drain-timeout=300", translated(func(s setting, r *Result) error {
			n, err := number(s.node)
			if err == nil && n > 0 {
				r.set(timeout, fmt.Sprintf("%ds", attempts*n))
			}
			return err
		}, timeout), "theirs makes three attempts: three times as long"},
		{"--max-time-to-process=3600", translated(func(s setting, r *Result) error {
			n, err := number(s.node)
			if err == nil && n > 0 {
				r.set(timeout, r.atMost(n))
			}
			return err
		}, timeout), "the shorter one"},
		{
			"--with-deregister=true", value("config.node.excludeFromLoadBalancers", truth("early", "off")),
			"[load balancers](#load-balancers)",
		},
		{"--deregister-target-types", isUnneeded(), "ours calls no load balancer"},
		{"--drain-timeout-unknown=30", isUnneeded(), "2s on a node that is not Ready"},
		{"--max-termination-grace-period=900", isUnneeded(), "pods keep their grace, up to half of the drain's time"},
		{"--max-drain-concurrency=32", isUnneeded(), "only budgets limit drains"},
		{"--drain-interval=30", isUnneeded(), "until the deadline, whenever the budget allows it"},
		{
			"--local-mode | --kubectl-path=/usr/local/bin/kubectl | --polling-interval=10 | --refresh-expired-credentials",
			isUnneeded(), "",
		},
	}
}

// attempts is how often theirs drains a node before it deletes pods.
const attempts = 3

// atMost returns the timeout of drains that is set, or theirs, but at most so many seconds.
func (r *Result) atMost(limit int) string {
	most := time.Duration(limit) * time.Second
	const initial = attempts * 300 * time.Second
	now := initial
	if set, is := r.values["config.drain.timeout"].(string); is {
		now, _ = time.ParseDuration(set)
	}
	return fmt.Sprintf("%.0fs", min(now, most).Seconds())
}
