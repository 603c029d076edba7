package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/lead"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// serve makes the clients and the rooms, and runs them until ctx ends.
func serve(ctx context.Context, cfg config.Agent, stdout io.Writer) error {
	log := observe.NewLogger(cfg.Log, stdout)
	klog.SetSlogLogger(slog.New(zerolog.NewSlogHandler(log.Level(zerolog.WarnLevel)))) // client-go's own words
	amazon, err := cloud.Load(ctx, cloud.Config{})
	if err != nil {
		return err
	}
	client, err := kubernetesClient()
	if err != nil {
		return err
	}
	nodes, err := node.New(client, cfg.Node)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	events := node.NewEvents(ctx, client, "node-drainer")
	flush := sync.OnceFunc(events.Close)
	defer flush()
	r, err := newRooms(cfg, amazon, client, nodes, newObserver(cfg, log, registry, events, nodes))
	if err != nil {
		return err
	}
	r.flush = flush
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDRESS: %w", err)
	}
	log.Info().Str("version", version).Str("cluster", cfg.ClusterName).Str("queue", cfg.Queue.URL).
		Stringer("listen", listener.Addr()).Msg("agent started")
	err = r.run(ctx, listener, observe.Handler(registry, r))
	log.Info().AnErr("reason", err).Msg("agent stopped")
	return err
}

func newObserver(
	cfg config.Agent, log zerolog.Logger, registry *prometheus.Registry, events *node.Events, nodes *node.Nodes,
) *observe.Observer {
	if cfg.DryRun {
		log = log.With().Bool("dry_run", true).Logger()
		return observe.New(log, registry, observe.Silence{}, observe.Silence{}, agent.Outcomes())
	}
	return observe.New(log, registry, events, nodes.Conditions, agent.Outcomes())
}

// rooms are the parts of the agent that run for as long as it does, and what they run for.
type rooms struct {
	consumer *queue.Consumer
	nodes    *node.Nodes
	observer *observe.Observer
	drainer  *drain.Drainer
	launches *launch.Waiter
	agent    *agent.Agent
	elector  *lead.Elector
	flush    func() // writes the Events that are still to be written
}

func newRooms(
	cfg config.Agent, amazon aws.Config, client kubernetes.Interface, nodes *node.Nodes, o *observe.Observer,
) (rooms, error) {
	drainer, err := drain.New(client, cfg.Drain, surroundings(cfg, nodes), o)
	if err != nil {
		return rooms{}, err
	}
	instances := ec2.New(awsec2.NewFromConfig(amazon))
	launches, err := launch.New(client, cfg.Launch)
	if err != nil {
		return rooms{}, err
	}
	cfg.Leader.Election = cfg.Leader.Election && !cfg.DryRun // which does nothing that two must not do
	elector, err := lead.New(client, cfg.Leader.In(cfg.PodNamespace), cfg.PodName, o)
	if err != nil {
		return rooms{}, err
	}
	hooks := autoscaling.New(awsautoscaling.NewFromConfig(amazon, withoutRetries), cfg.Hook, cfg.Queue.URL, o)
	consumer := queue.New(sqs.NewFromConfig(amazon), cfg.Queue, o)
	consumer.Gate(elector.WaitForLease)
	return rooms{
		consumer: consumer,
		nodes:    nodes,
		observer: o,
		drainer:  drainer,
		launches: launches,
		agent: agent.New(agent.Config{
			ClusterName:         cfg.ClusterName,
			ConfirmTimeout:      cfg.Hook.ConfirmTimeout,
			RegistrationTimeout: cfg.Node.RegistrationTimeout,
			DrainTimeout:        cfg.Drain.Timeout,
			ResyncInterval:      cfg.ResyncInterval,
			Events:              cfg.Event,
			DryRun:              cfg.DryRun,
			Launch: agent.LaunchConfig{
				Timeout: cfg.Launch.Timeout, Continue: cfg.Launch.AtTimeout == launch.Continue,
			},
			NodeName: cfg.NodeName,
			HandOver: elector.HandOver,
		}, hooks, instances, nodes, drainer, launches, o),
		elector: elector,
	}, nil
}

// surroundings is what a drain must know of the nodes and of this process.
func surroundings(cfg config.Agent, nodes *node.Nodes) drain.Environment {
	around := drain.Environment{
		Taint: corev1.Taint{
			Key: cfg.Node.TaintKey, Value: string(event.LifecycleTerminating),
			Effect: corev1.TaintEffect(cfg.Node.TaintEffect),
		},
		Unreachable: nodes.Unreachable,
	}
	if cfg.PodName != "" {
		around.Self = cfg.PodNamespace + "/" + cfg.PodName
	}
	return around
}

// withoutRetries leaves retrying to package lifecycle, which knows what is at stake and tells of each
// failure.
func withoutRetries(o *awsautoscaling.Options) { o.RetryMaxAttempts = 1 }

// kubernetesClient follows KUBECONFIG, or the ServiceAccount of the pod. It has no rate limit: the API
// server's own priority and fairness decides what it takes.
func kubernetesClient() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client (set KUBECONFIG outside a cluster): %w", err)
	}
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf // a fraction of the time and memory of JSON
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.UserAgent = rest.DefaultKubernetesUserAgent() + " node-drainer/" + version
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client: %w", err)
	}
	return client, nil
}
