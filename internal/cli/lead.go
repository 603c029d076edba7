package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
)

// watchProcess is a process of trigger watch. If there is a Lease, it works while it holds that.
type watchProcess struct {
	*executor
	clients  *clients
	observer *observe.Watch
	elector  *lead.Elector // nil without a Lease
	lease    lead.Config
	events   *node.Events
	leaseUID string // as the leader has read it
}

// watchGroups replaces what is outdated until ctx ends.
func (e *executor) watchGroups(ctx context.Context, c *clients) error {
	registry := prometheus.NewRegistry()
	w := &watchProcess{executor: e, clients: c}
	w.observer = observe.NewWatch(registry, e.settings.Interval, report.Outcomes(), w.record)
	if e.settings.lease != "" {
		if err := w.join(ctx); err != nil {
			return err
		}
		defer w.events.Close()
	}
	work, ctx := errgroup.WithContext(ctx)
	if e.settings.listen != "" {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", e.settings.listen)
		if err != nil {
			return fmt.Errorf("%s: %w", e.settings.options.source("listen"), err)
		}
		_, _ = fmt.Fprintf(e.stderr, "trigger: listening on %v\n", listener.Addr())
		server := observe.Server(observe.Handler(registry, w))
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		work.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	work.Go(func() error { return w.run(ctx) })
	return work.Wait()
}

// join makes this process one of several replicas.
func (w *watchProcess) join(ctx context.Context) (err error) {
	namespace, name, named := strings.Cut(w.settings.lease, "/")
	if !named {
		namespace, name = w.podNamespace(), w.settings.lease
	}
	if namespace == "" {
		return fmt.Errorf("%s has no namespace, and the trigger runs in no pod: set NAMESPACE/NAME",
			w.settings.options.source("lease"))
	}
	w.lease = lead.Config{
		Election: true, Namespace: namespace, LeaseName: name,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
	}
	w.events = node.NewEvents(ctx, w.clients.kubernetes, "node-drainer-watch")
	w.elector, err = lead.New(w.clients.kubernetes, w.lease, w.environ["POD_NAME"], nil, w)
	return err
}

// run works, whenever this process leads, until ctx ends.
func (w *watchProcess) run(ctx context.Context) error {
	env := rollout.WatchEnvironment{NewReporter: w.reporter, Observer: w.observer}
	if w.elector == nil {
		w.observer.LeadershipStarted()
		return w.watchAs(ctx, env)
	}
	env.Gate = w.elector.WaitForLease
	return w.elector.Run(ctx, func(leading context.Context) error {
		w.readLease(leading)
		working, stop := context.WithCancelCause(context.WithoutCancel(leading))
		defer stop(nil)
		defer context.AfterFunc(leading, func() {
			if ctx.Err() == nil {
				stop(loop.ErrNotLeading)
			}
			stop(nil)
		})()
		return w.watchAs(working, env)
	})
}

// watchAs watches until ctx ends.
func (w *watchProcess) watchAs(ctx context.Context, env rollout.WatchEnvironment) error {
	c := w.clients
	if err := rollout.NewWatcher(c.config, c.reader, c.changes(), c.view, env).Run(ctx); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// readLease reads the UID of the Lease, by which kubectl describe finds its Events.
func (w *watchProcess) readLease(ctx context.Context) {
	leases := w.clients.kubernetes.CoordinationV1().Leases(w.lease.Namespace)
	if l, err := leases.Get(ctx, w.lease.LeaseName, metav1.GetOptions{}); err == nil {
		w.leaseUID = string(l.UID)
	}
}

// record records an Event on the Lease.
func (w *watchProcess) record(reason, message string, warning bool) {
	if w.events != nil {
		w.events.OnLease(w.lease.Namespace, w.lease.LeaseName, w.leaseUID, reason, message, warning)
	}
}

// Ready returns what this process does, or what keeps it from taking part in the election.
func (w *watchProcess) Ready() (role string, err error) {
	if w.elector == nil {
		return "watching", nil
	}
	return w.elector.Role(), w.elector.Ready()
}

// Healthy returns a failure that only a restart of the process can end.
func (w *watchProcess) Healthy() error {
	if w.elector == nil {
		return nil
	}
	return w.elector.Healthy()
}

// LeadershipStarted implements lead.Observer.
func (w *watchProcess) LeadershipStarted() {
	w.observer.LeadershipStarted()
	w.log("started leading")
}

// LeadershipEnded implements lead.Observer.
func (w *watchProcess) LeadershipEnded(reason error) {
	w.observer.LeadershipEnded()
	w.log(fmt.Sprintf("stopped leading: %v", reason))
}

// LeaderChanged implements lead.Observer.
func (w *watchProcess) LeaderChanged(holder string) {
	if holder == "" {
		w.log("no leader")
		return
	}
	w.log("the leader is " + holder)
}

// KubernetesFailed implements lead.Observer.
func (w *watchProcess) KubernetesFailed(operation string, err error) {
	w.log(fmt.Sprintf("call failed, retrying: %s: %v", operation, err))
}

func (w *watchProcess) log(text string) { _, _ = fmt.Fprintln(w.stderr, "trigger:", text) }
