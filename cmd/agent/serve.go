package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/lifecycle"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// serve makes the clients and the rooms, and runs them until ctx ends.
func serve(ctx context.Context, cfg config.Agent, stdout io.Writer) error {
	log := observe.NewLogger(cfg.Log, stdout)
	klog.SetSlogLogger(slog.New(zerolog.NewSlogHandler(log.Level(zerolog.WarnLevel)))) // client-go's own words
	cloud, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("configure the AWS SDK: %w", err)
	}
	if cloud.Region == "" {
		return errors.New("no AWS region is set: set AWS_REGION")
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
	defer events.Close()
	r, err := newRooms(cfg, cloud, client, nodes, observe.New(log, registry, events, nodes, agent.Outcomes()))
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDRESS: %w", err)
	}
	log.Info().Str("version", version).Str("cluster", cfg.ClusterName).Str("queue", cfg.Queue.URL).
		Stringer("listen", listener.Addr()).Msg("agent started")
	err = r.run(ctx, listener, observe.Handler(registry, r.readiness))
	log.Info().AnErr("reason", err).Msg("agent stopped")
	return err
}

// rooms are the parts of the agent that run for as long as it does, and what they run for.
type rooms struct {
	consumer *queue.Consumer
	nodes    *node.Nodes
	observer *observe.Observer
	drainer  *drain.Drainer
	agent    *agent.Agent
}

func newRooms(
	cfg config.Agent, cloud aws.Config, client kubernetes.Interface, nodes *node.Nodes, o *observe.Observer,
) (rooms, error) {
	drainer, err := drain.New(client, cfg.Drain, surroundings(cfg, nodes), o)
	if err != nil {
		return rooms{}, err
	}
	hooks := lifecycle.New(autoscaling.NewFromConfig(cloud, withoutRetries), cfg.Hook, o)
	return rooms{
		consumer: queue.New(sqs.NewFromConfig(cloud), cfg.Queue, o),
		nodes:    nodes,
		observer: o,
		drainer:  drainer,
		agent: agent.New(agent.Config{
			ClusterName:         cfg.ClusterName,
			ConfirmTimeout:      cfg.Hook.ConfirmTimeout,
			RegistrationTimeout: cfg.Node.RegistrationTimeout,
			DrainTimeout:        cfg.Drain.Timeout,
		}, hooks, nodes, drainer, o),
	}, nil
}

// surroundings is what a drain must know of the nodes and of this process.
func surroundings(cfg config.Agent, nodes *node.Nodes) drain.Surroundings {
	around := drain.Surroundings{
		Taint: corev1.Taint{
			Key: cfg.Node.TaintKey, Value: string(event.LifecycleTerminating),
			Effect: corev1.TaintEffect(cfg.Node.TaintEffect),
		},
		Lost: nodes.Lost,
	}
	if cfg.PodName != "" {
		around.Self = cfg.PodNamespace + "/" + cfg.PodName
	}
	return around
}

// withoutRetries leaves retrying to package lifecycle, which knows what is at stake and tells of each
// failure.
func withoutRetries(o *autoscaling.Options) { o.RetryMaxAttempts = 1 }

// run runs everything side by side until ctx ends or one part fails. Messages are received only when the
// caches have been filled.
func (r rooms) run(ctx context.Context, listener net.Listener, handler http.Handler) error {
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	g, ctx := errgroup.WithContext(ctx)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	g.Go(func() error { return ignore(server.Serve(listener), http.ErrServerClosed) })
	g.Go(func() error { r.nodes.Run(watching); return nil })
	g.Go(func() error { r.nodes.WriteConditions(watching, r.observer); return nil })
	g.Go(func() error { r.drainer.Run(watching); return nil })
	g.Go(func() error {
		defer stopWatching()
		defer func() { _ = server.Close() }()
		if err := r.nodes.WaitForSync(ctx); err != nil {
			return ignore(err, context.Canceled)
		}
		return ignore(r.consumer.Run(ctx, r.agent.Handle), context.Canceled)
	})
	return g.Wait()
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// readiness says what is still missing before events can be served.
func (r rooms) readiness() error {
	switch {
	case !r.nodes.Synced():
		return errors.New("the Nodes have not been listed yet: is the API server reachable, " +
			"and are nodes allowed to be listed and watched?")
	case !r.drainer.Synced():
		return errors.New("the PodDisruptionBudgets or VolumeAttachments have not been listed yet: " +
			"are they allowed to be listed and watched?")
	case !r.consumer.Ready():
		return errors.New("the queue's attributes could not be read yet: check QUEUE_URL, AWS_REGION " +
			"and the permissions")
	}
	return nil
}

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
