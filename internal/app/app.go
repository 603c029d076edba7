// Package app builds the agent from its configuration and runs it: AWS and Kubernetes clients, caches, leader
// election, the HTTP server for metrics and probes.
package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/kube"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/notify"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// NewLogger returns a logger that writes to w, and makes client-go log warnings to it. It changes variables
// of the process that are not protected against concurrent use: call it once, before Run.
func NewLogger(cfg config.Agent, w io.Writer) zerolog.Logger {
	log := observe.NewLogger(cfg.Log, w)
	klog.SetSlogLogger(slog.New(zerolog.NewSlogHandler(log.Level(zerolog.WarnLevel))))
	return log
}

// Environment is what an agent runs in.
type Environment struct {
	AWS        aws.Config
	Kubernetes kubernetes.Interface
	Listener   net.Listener // for metrics and probes; RunIn closes it
	Version    string
	Preflight  bool // check the installation in the background
	// Unanswered returns for how long the API server has not answered, and the last error; it may be nil.
	Unanswered func() (time.Duration, error)

	// HandOvers are more kinds of hand-overs than those of the agent, by the value of the annotation.
	HandOvers map[string]handover.Releaser
}

// Run runs the agent until ctx ends or a component fails, and returns that failure.
func Run(ctx context.Context, cfg config.Agent, version string, log zerolog.Logger) error {
	awsConfig, err := cloud.Load(ctx, cloud.Config{})
	if err != nil {
		return err
	}
	var server answers
	client, err := kubernetesClient(version, server.wrap)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDRESS: %w", err)
	}
	return RunIn(ctx, cfg, Environment{
		AWS: awsConfig, Kubernetes: client, Listener: listener, Version: version, Preflight: true,
		Unanswered: server.unanswered,
	}, log)
}

// RunIn is Run in an environment that the caller provides.
func RunIn(ctx context.Context, cfg config.Agent, env Environment, log zerolog.Logger) error {
	defer func() { _ = env.Listener.Close() }()
	nodes, err := node.New(env.Kubernetes, cfg.Node)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	events := node.NewEvents(ctx, env.Kubernetes, "node-drainer")
	flush := sync.OnceFunc(events.Close)
	defer flush()
	observer := newObserver(cfg, log, registry, events, nodes)
	events.Observe(observer)
	stopNotifier, err := startNotifier(ctx, cfg, observer)
	if err != nil {
		return err
	}
	defer stopNotifier()
	c, err := newComponents(cfg, env, nodes, observer)
	if err != nil {
		return err
	}
	c.flushEvents = flush
	log.Info().Str("version", env.Version).Str("cluster", cfg.ClusterName).Str("queue", cfg.Queue.URL).
		Stringer("listen", env.Listener.Addr()).Msg("agent started")
	err = c.run(ctx, env.Listener, observe.Handler(registry, c))
	log.Info().AnErr("reason", err).Msg("agent stopped")
	return err
}

// newObserver returns an observer that in a dry run writes neither Events nor node conditions.
func newObserver(
	cfg config.Agent, log zerolog.Logger, registry *prometheus.Registry, events *node.Events, nodes *node.Nodes,
) *observe.Observer {
	if cfg.DryRun {
		log = log.With().Bool("dry_run", true).Logger()
		return observe.New(log, registry, observe.Silence{}, observe.Silence{}, agent.Outcomes())
	}
	return observe.New(log, registry, events, nodes.Conditions, agent.Outcomes())
}

// startNotifier has the observer post messages about drains, unless the URL is not set, or in a dry run, until the
// returned function is called. Drains and the leader never wait for it.
func startNotifier(ctx context.Context, cfg config.Agent, o *observe.Observer) (stop func(), err error) {
	if cfg.Notify.URL == "" || cfg.DryRun {
		return func() {}, nil
	}
	notifier, err := notify.New(cfg.Notify, cfg.ClusterName, http.DefaultTransport)
	if err != nil {
		return nil, err
	}
	o.NotifyWith(notifier)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var notifying sync.WaitGroup
	notifying.Go(func() { notifier.Run(running, o) })
	return func() {
		cancel()
		notifying.Wait()
	}, nil
}

// kubernetesClient returns a client whose requests pass through wrap, which may be nil.
func kubernetesClient(version string, wrap transport.WrapperFunc) (kubernetes.Interface, error) {
	cfg, err := kube.Config()
	if err != nil {
		return nil, err
	}
	if wrap != nil {
		cfg.Wrap(wrap)
	}
	return kube.Client(cfg, "node-drainer/"+version)
}
