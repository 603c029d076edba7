package app

import (
	"context"
	"maps"
	"time"

	awscloudwatch "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/handover/redis"
	"github.com/node-drainer/node-drainer/internal/handover/restart"
	"github.com/node-drainer/node-drainer/internal/handover/surge"
	"github.com/node-drainer/node-drainer/internal/handover/webhook"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/text"
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
	preflight   *preflight // nil: none
	flushEvents func()     // writes the queued Kubernetes Events
	unanswered  func() (time.Duration, error)
}

func newComponents(
	cfg config.Agent, env Environment, nodes *node.Nodes, o *observe.Observer,
) (components, error) {
	client := env.Kubernetes
	environment, err := drainEnvironment(cfg, env, nodes, o)
	if err != nil {
		return components{}, err
	}
	drainer, err := drain.New(client, cfg.Drain, environment, o)
	if err != nil {
		return components{}, err
	}
	nodes.OnRegistration(drainer.NodeRegistered)
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

func agentConfig(cfg config.Agent, elector *lead.Elector, client kubernetes.Interface) agent.Config {
	c := agent.Config{
		ClusterName:         cfg.ClusterName,
		ConfirmTimeout:      cfg.Hook.ConfirmTimeout,
		RegistrationTimeout: cfg.Node.RegistrationTimeout,
		DrainTimeout:        cfg.Drain.Timeout,
		ResyncInterval:      cfg.ResyncInterval,
		Events:              cfg.Event,
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
func drainEnvironment(
	cfg config.Agent, in Environment, nodes *node.Nodes, o *observe.Observer,
) (drain.Environment, error) {
	networks, err := handover.ParseNetworks(cfg.Drain.HandOverNetworks)
	if err != nil {
		return drain.Environment{}, err
	}
	redisOptions := redis.Options{Secret: readSecret(in.Kubernetes), Networks: networks}
	if scaler := newScaler(cfg, in.Kubernetes, o); scaler != nil {
		redisOptions.Scaler = scaler
	}
	releaser := redis.New(redisOptions)
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
		Stays:       func(name string) bool { return node.Stays(nodes, name) },
		Kinds: map[string]handover.Kind{
			handover.GateKind:  {Releaser: handover.Gate{}},
			handover.HTTPKind:  {Releaser: webhook.New(networks)},
			handover.RedisKind: {Releaser: releaser, Peers: true},
		},
	}
	maps.Copy(env.Kinds, in.HandOvers)
	if !cfg.DryRun {
		env.Restarter = restart.New(in.Kubernetes)
		env.Surger = releaser
	}
	if cfg.PodName != "" {
		env.Self = cfg.PodNamespace + "/" + cfg.PodName
	}
	return env, nil
}

// newScaler returns what starts surges, if the configuration allows any. Its records are in a ConfigMap next to the
// Lease: the next leader needs them.
func newScaler(cfg config.Agent, client kubernetes.Interface, o *observe.Observer) *surge.Scaler {
	namespaces, lease := text.Split(cfg.Drain.SurgeNamespaces), cfg.Leader.In(cfg.PodNamespace)
	if cfg.DryRun || len(namespaces) == 0 || lease.Namespace == "" {
		return nil
	}
	return surge.New(client, namespaces, types.NamespacedName{
		Namespace: lease.Namespace, Name: lease.LeaseName + "-surges",
	}, o)
}

// readSecret returns what reads a Secret whenever it is called: an agent that cached or watched Secrets would need
// the right to list them.
func readSecret(
	client kubernetes.Interface,
) func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	return func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return secret.Data, nil
	}
}
