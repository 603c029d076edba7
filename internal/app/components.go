package app

import (
	"maps"
	"time"

	awscloudwatch "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/handover/restart"
	"github.com/node-drainer/node-drainer/internal/handover/webhook"
	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// components are the parts of the agent that run until it stops.
type components struct {
	consumer    *queue.Consumer
	nodes       *node.Nodes
	observer    *observe.Observer
	drainer     *drain.Drainer
	launches    *launch.Waiter
	agent       *agent.Agent
	elector     *lead.Elector
	history     *history.Writer // nil: records of drains are only in the log
	preflight   *preflight      // nil: none
	flushEvents func()          // writes the queued Kubernetes Events
	unanswered  func() (time.Duration, error)
}

func newComponents(
	cfg config.Agent, env Environment, nodes *node.Nodes, o *observe.Observer,
) (components, error) {
	client := env.Kubernetes
	drainer, err := drain.New(client, cfg.Drain, drainEnvironment(cfg, env, nodes), o)
	if err != nil {
		return components{}, err
	}
	nodes.OnChange(drainer.NodeChanged)
	launches, err := launch.New(client, cfg.Launch)
	if err != nil {
		return components{}, err
	}
	// A dry run changes nothing, so several replicas may work at once.
	cfg.Leader.Election = cfg.Leader.Election && !cfg.DryRun
	elector, err := lead.New(client, cfg.Leader.In(cfg.PodNamespace), cfg.PodName, &lead.Mark{
		Cluster: cfg.ClusterName, Queue: cfg.Queue.URL, Hooks: cfg.Hook.Names,
	}, o)
	if err != nil {
		return components{}, err
	}
	instances := ec2.New(awsec2.NewFromConfig(env.AWS))
	alarms := cloudwatch.New(awscloudwatch.NewFromConfig(env.AWS))
	groups := autoscaling.New(newAutoScaling(env), cfg.Hook, cfg.Queue.URL, o)
	var checks *preflight
	if env.Preflight {
		checks = &preflight{installation(cfg, env, nodes, groups), o}
	}
	consumer := queue.New(sqs.NewFromConfig(env.AWS), cfg.Queue, o)
	consumer.Gate(elector.WaitForLease)
	return components{
		history:  newHistory(cfg, client, o),
		consumer: consumer,
		nodes:    nodes,
		observer: o,
		drainer:  drainer,
		launches: launches,
		agent:    agent.New(agentConfig(cfg, elector, client), groups, instances, alarms, nodes, drainer, launches, o),
		elector:  elector,

		preflight:  checks,
		unanswered: env.Unanswered,
	}, nil
}

// newHistory returns what keeps the records of drains; nil if nothing does, as in a dry run.
func newHistory(cfg config.Agent, client kubernetes.Interface, o *observe.Observer) *history.Writer {
	if cfg.HistoryConfigMap == "" || cfg.DryRun {
		return nil
	}
	w := history.NewWriter(client, cfg.PodNamespace, cfg.HistoryConfigMap)
	o.KeepHistory(w)
	return w
}

func agentConfig(cfg config.Agent, elector *lead.Elector, client kubernetes.Interface) agent.Config {
	c := agent.Config{
		ClusterName:         cfg.ClusterName,
		ConfirmTimeout:      cfg.Hook.ConfirmTimeout,
		RegistrationTimeout: cfg.Node.RegistrationTimeout,
		DrainTimeout:        cfg.Drain.Timeout,
		ResyncInterval:      cfg.ResyncInterval,
		Events:              cfg.Event,
		MaxConcurrent:       cfg.Turns.Max,
		MaxPerZone:          cfg.Turns.MaxPerZone,
		SomeNodes:           cfg.Node.Selector != "",
		DryRun:              cfg.DryRun,
		Launch: agent.LaunchConfig{
			Timeout: cfg.Launch.Timeout, Continue: cfg.Launch.AtTimeout == launch.Continue,
		},
		NodeName: cfg.NodeName,
		HandOver: elector.HandOver,
	}
	if cfg.AutoscalerDeployment != "" {
		c.Autoscaler = autoscaler.New(client, cfg.AutoscalerDeployment)
	}
	return c
}

// drainEnvironment returns the taint that draining nodes have, which of them are unreachable or lack it, the
// agent's own pod, which leaves its node last, and how others are asked before they leave.
func drainEnvironment(cfg config.Agent, in Environment, nodes *node.Nodes) drain.Environment {
	env := drain.Environment{
		Taint: corev1.Taint{
			Key: cfg.Node.TaintKey, Value: string(event.LifecycleTerminating),
			Effect: corev1.TaintEffect(cfg.Node.TaintEffect),
		},
		TaintValue:  func(name string) string { return node.TaintValue(nodes, name) },
		Unreachable: nodes.Unreachable,
		Dead:        func(name string) bool { return node.IsDead(nodes, name) },
		NodeUID:     func(name string) string { return node.UIDOf(nodes, name) },
		Untainted:   func(name string) bool { return node.Untainted(nodes, name) },
		Controls:    func(name string) drain.Controls { return drain.Controls(node.ControlsOf(nodes, name)) },
		Leaving:     func() []string { return node.Leaving(nodes) },
		Kinds: map[string]handover.Releaser{
			handover.GateKind: handover.Gate{},
			handover.HTTPKind: webhook.New(in.Kubernetes),
		},
	}
	maps.Copy(env.Kinds, in.HandOvers)
	if !cfg.DryRun {
		env.Restarter = restart.New(in.Kubernetes)
	}
	if cfg.PodName != "" {
		env.Self = cfg.PodNamespace + "/" + cfg.PodName
	}
	return env
}
