// Package app builds the agent from its configuration and runs it: AWS and Kubernetes clients, caches, leader
// election, the HTTP server for metrics and probes.
package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// Run runs the agent until ctx ends or a component fails, and returns that failure. It logs to stdout.
func Run(ctx context.Context, cfg config.Agent, version string, stdout io.Writer) error {
	log := observe.NewLogger(cfg.Log, stdout)
	klog.SetSlogLogger(slog.New(zerolog.NewSlogHandler(log.Level(zerolog.WarnLevel)))) // for client-go
	awsConfig, err := cloud.Load(ctx, cloud.Config{})
	if err != nil {
		return err
	}
	client, err := kubernetesClient(version)
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
	c, err := newComponents(cfg, awsConfig, client, nodes, newObserver(cfg, log, registry, events, nodes))
	if err != nil {
		return err
	}
	c.flushEvents = flush
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDRESS: %w", err)
	}
	log.Info().Str("version", version).Str("cluster", cfg.ClusterName).Str("queue", cfg.Queue.URL).
		Stringer("listen", listener.Addr()).Msg("agent started")
	err = c.run(ctx, listener, observe.Handler(registry, c))
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

// kubernetesClient connects as KUBECONFIG says, or with the ServiceAccount of the pod. It has no client-side
// rate limit: API Priority and Fairness in the API server limits it.
func kubernetesClient(version string) (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client (set KUBECONFIG outside a cluster): %w", err)
	}
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf // takes a fraction of the time and memory of JSON
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.UserAgent = rest.DefaultKubernetesUserAgent() + " node-drainer/" + version
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client: %w", err)
	}
	return client, nil
}
