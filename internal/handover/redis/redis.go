// Package redis hands the leadership of a Redis or Valkey pod over to a replica before the pod is evicted: in a
// cluster, under Sentinel, or with plain replication. Which of them it is, the pod itself says.
//
// Pods are not trusted. The package connects to nothing but the IPs that the API server gives for pods of the same
// namespace; an address that Redis names is only compared with them.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// Options are what a Releaser works with.
type Options struct {
	// Secret reads a Secret. It is called once for each call of the Releaser, and only for pods that name one.
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// Networks are addresses to connect to although they are of a host, loopback or link-local.
	Networks workload.Networks
	// PasswordsInClear permits to send passwords without TLS.
	PasswordsInClear bool
	// Scaler brings a replica for a leader without one; nil does not.
	Scaler workload.Scaler
	// Dial connects; nil is that of net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// The bounds of a call.
const (
	callTimeout   = 20 * time.Second       // of a whole call
	answerTimeout = 2 * time.Second        // of each command, and of connecting
	pollInterval  = 50 * time.Millisecond  // between two looks at a member while something is under way
	retryInterval = 500 * time.Millisecond // after which a call is repeated that found something under way
	maxLag        = 1 << 20                // in bytes, of a replica in sync
	maxSilence    = 3                      // in seconds, of a replica in sync: it acknowledges every second
)

// Releaser is a workload.Releaser. It is safe for concurrent use.
type Releaser struct {
	options Options
}

// New returns a Releaser.
func New(o Options) *Releaser {
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	return &Releaser{options: o}
}

// Release makes the pod ready to leave. See handover.Releaser.
func (r *Releaser) Release(ctx context.Context, request workload.Request) (handover.Answer, error) {
	return r.answer(ctx, request, (*call).release)
}

// Reconcile has sentinels forget what has no pod anymore, and gives the leadership back to a preferred member. See
// workload.Releaser.
func (r *Releaser) Reconcile(ctx context.Context, request workload.Request) (handover.Answer, error) {
	return r.answer(ctx, request, (*call).reconcile)
}

// answer does what a call is to do, and makes an Answer of an error that the caller cannot do anything about.
func (r *Releaser) answer(
	parent context.Context, request workload.Request, do func(*call, context.Context) (handover.Answer, error),
) (handover.Answer, error) {
	ctx, cancel := context.WithTimeout(parent, callTimeout)
	defer cancel()
	c := &call{request: request, session: newSession(r.options)}
	defer c.session.close()
	answer, err := do(c, ctx)
	var later *putOff
	switch {
	case err == nil:
		return answer, nil
	case hasEnded(parent):
		return handover.Answer{}, fmt.Errorf("hand over %s/%s: %w", request.Pod.Namespace, request.Pod.Name, err)
	case errors.As(err, &later):
		return handover.Answer{
			Go:      later.outcome == handover.Invalid || later.outcome == handover.NoReplica,
			Outcome: later.outcome, Message: later.message, Leader: c.moved, Again: later.again,
		}, nil
	}
	return handover.Answer{Outcome: handover.Refused, Message: printable(err.Error()), Leader: c.moved}, nil
}

// hasEnded reports whether a context has ended, or does so now: a connection with the same deadline may notice it
// first.
func hasEnded(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// putOff is an error that is an answer: why the pod may not go yet.
type putOff struct {
	outcome handover.Outcome
	message string
	again   time.Duration
}

func (p *putOff) Error() string { return p.message }

// behind returns the answer that another member is missing, leaving or not in sync.
func behind(format string, args ...any) error {
	return &putOff{outcome: handover.GroupBehind, message: printable(fmt.Sprintf(format, args...))}
}

// invalid returns the answer that an annotation is wrong.
func invalid(format string, args ...any) error {
	return &putOff{outcome: handover.Invalid, message: printable(fmt.Errorf(format, args...).Error())}
}

// underway returns the answer that a hand-over has not ended yet.
func underway(format string, args ...any) error {
	message := printable(fmt.Sprintf(format, args...))
	return &putOff{outcome: handover.HandingOver, message: message, again: retryInterval}
}

// call is one call of a Releaser.
type call struct {
	request workload.Request
	session *session
	moved   string // the pod that leads since this call
}

// release is what Release does.
func (c *call) release(ctx context.Context) (handover.Answer, error) {
	if c.request.Pod.IP == "" {
		return handover.Answer{Go: true, Outcome: handover.NotLeading, Message: "it has no address yet"}, nil
	}
	mode, err := c.mode(ctx)
	if err != nil {
		return handover.Answer{}, err
	}
	switch mode {
	case clusterMode:
		return c.releaseFromCluster(ctx)
	case sentinelMode:
		return c.releaseFromSentinel(ctx)
	}
	return c.releaseFromReplication(ctx)
}

// reconcile is what Reconcile does.
func (c *call) reconcile(ctx context.Context) (handover.Answer, error) {
	mode, err := c.mode(ctx)
	if err != nil {
		return handover.Answer{}, err
	}
	if mode == sentinelMode {
		if err := c.forgetStaleAddresses(ctx); err != nil {
			return handover.Answer{}, err
		}
	}
	return failBack(ctx, c, mode)
}

// The modes of a group.
const (
	clusterMode  = "cluster"
	sentinelMode = "sentinel"
	plainMode    = "standalone"
)

// mode asks the pod for its mode. Redis calls it standalone under Sentinel too.
func (c *call) mode(ctx context.Context) (string, error) {
	server, err := c.session.redis(ctx, c.request.Pod)
	if err != nil {
		return "", err
	}
	info, err := server.info(ctx, "server")
	if err != nil {
		return "", err
	}
	switch mode := info["redis_mode"]; {
	case mode == plainMode && len(c.sentinelPods()) > 0:
		return sentinelMode, nil
	case mode == plainMode || mode == clusterMode:
		return mode, nil
	default:
		return "", fmt.Errorf("%s: unsupported redis_mode %q", c.request.Pod.Name, mode)
	}
}
