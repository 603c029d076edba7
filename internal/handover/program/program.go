// Package program builds the program that has the pods of a namespace hand over from its configuration, and runs it.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/handover/redis"
	"github.com/node-drainer/node-drainer/internal/handover/server"
	"github.com/node-drainer/node-drainer/internal/handover/surge"
	"github.com/node-drainer/node-drainer/internal/handover/webhook"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/internal/kube"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/observe"
)

// stopTimeout is how long a call that has begun may take after the end of the program is asked for.
const stopTimeout = 25 * time.Second

// Run answers questions until ctx ends, and what has begun then. It returns an error if it cannot.
func Run(ctx context.Context, cfg Config, version string, out io.Writer) error {
	log := observe.NewLogger(observe.Config{Level: cfg.LogLevel, Format: cfg.LogFormat}, out)
	connection, err := kube.Config()
	if err != nil {
		return err
	}
	client, err := kube.Client(connection, "node-drainer-handover/"+version)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDRESS: %w", err)
	}
	events := node.NewEvents(ctx, client, "node-drainer-handover")
	defer events.Close()
	o := &observer{log, events}
	events.Observe(o)
	s := server.New(server.Options{
		Namespace: cfg.PodNamespace, Pod: cfg.PodName, Releaser: newReleaser(cfg, client, o), Observer: o,
		List: func(ctx context.Context) ([]workload.Pod, error) { return workload.List(ctx, client, cfg.PodNamespace) },
	})
	log.Info().Str("version", version).Str("namespace", cfg.PodNamespace).Stringer("listen", listener.Addr()).
		Msg("handover started")
	err = serve(ctx, listener, s)
	log.Info().AnErr("reason", err).Msg("handover stopped")
	return err
}

// newReleaser returns what has Redis and Valkey hand over.
func newReleaser(cfg Config, client kubernetes.Interface, o *observer) *redis.Releaser {
	networks, _ := workload.ParseNetworks(cfg.Networks) // Read has checked it.
	options := redis.Options{
		Networks: networks, PasswordsInClear: cfg.PasswordsInClear,
		Secret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			// Whenever it is needed: who caches or watches Secrets needs the right to list them.
			secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return secret.Data, nil
		},
	}
	if cfg.Surges {
		options.Scaler = surge.New(client, types.NamespacedName{Namespace: cfg.PodNamespace, Name: cfg.SurgeRecords}, o)
	}
	return redis.New(options)
}

// serve serves until ctx ends, and then what has begun, for stopTimeout at most.
func serve(ctx context.Context, listener net.Listener, s *server.Server) error {
	mux := http.NewServeMux()
	mux.Handle("POST "+webhook.Path, s)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	web := observe.Server(mux)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { s.Run(ctx) })
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		stopped <- web.Shutdown(stopping)
	})()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
