package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/node-drainer/node-drainer/internal/app"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// errCrashed is the error of a request of a process that has crashed.
var errCrashed = errors.New("the process has crashed")

// errStopped is why a process ends that was told to stop.
var errStopped = errors.New("the process was told to stop")

// leaseLasts is how long it takes at most until another replica leads.
const leaseLasts = 3 * time.Minute

// releaseLasts is how long that takes when a process gives up its Lease.
const releaseLasts = 30 * time.Second

// restartAfter is how long the kubelet takes to start a container again.
const restartAfter = 10 * time.Second

// span is a period of time.
type span struct{ from, until time.Time }

// agent is a replica of an install. When its process crashes, another one starts.
type agent struct {
	Install
	name    string
	replica int
	world   *world
	cluster *cluster

	mu      sync.Mutex
	crashAt int       // the process crashes after so many more writes; never if zero
	stopAt  int       // stop is called when so many more writes have been sent; never if zero
	stop    func()    // has the process told to stop
	down    []span    // when no process ran, or the one that did had crashed or was to stop
	ended   time.Time // when the process that runs crashed, or was told to stop; zero if neither
	process *process  // the one that runs; nil if none does
	old     bool      // make sim-upgrade: the next process is of the older commit
}

// run runs processes until ctx ends.
func (a *agent) run(ctx context.Context) error {
	environ := a.withoutPolicies()
	for ctx.Err() == nil {
		cfg, err := config.ReadAgent(environ)
		if err != nil {
			return err
		}
		environ = append(environ, a.Later...)
		if err := a.runProcess(ctx, cfg); ctx.Err() == nil {
			a.world.log.add(a.name, "process ended", "error", err)
			a.awaitRestart(ctx, errors.Is(err, errStopped))
		}
	}
	return nil
}

// awaitRestart waits until the next process starts, and records that none has worked since the last one crashed or was
// told to stop, until one of the install leads. One that crashed does nothing more, though its goroutines may take
// seconds to end. One that stops in time gives up its Lease.
func (a *agent) awaitRestart(ctx context.Context, stopped bool) {
	a.mu.Lock()
	p, began := a.process, orNow(a.ended)
	a.process = nil
	a.mu.Unlock()
	retry.Sleep(ctx, restartAfter)
	end := time.Now()
	switch {
	case a.Replicas == 1:
	case stopped && !p.hasCrashed():
		end = end.Add(releaseLasts)
	default:
		end = end.Add(leaseLasts)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = append(a.down, span{began, end})
}

// agentNamespace is that of all agents.
const agentNamespace = "kube-system"

// records is the name of the ConfigMap that an install keeps the records of drains in.
func (i Install) records() string { return i.Name + "-history" }

// environ returns the variables of the agent. Intervals of the leader election and of messages in flight are longer
// than by default, because a world of many hours would make little else than these calls.
func (a *agent) environ() []string {
	environ := append([]string{
		"CLUSTER_NAME=" + a.cluster.Name, "QUEUE_URL=" + queueURL(a.Name), "QUEUE_VISIBILITY_TIMEOUT=45s",
		"POD_NAMESPACE=" + agentNamespace, "HISTORY_CONFIGMAP=" + a.records(),
		"LEADER_LEASE_NAME=" + a.Name, "LEADER_LEASE_DURATION=2m",
		"LEADER_RENEW_DEADLINE=90s", "LEADER_RETRY_PERIOD=20s",
	}, a.Settings...)
	if a.Replicas == 1 {
		environ = append(environ, "LEADER_ELECTION=false")
	}
	if a.Team != "" {
		environ = append(environ, "NODE_SELECTOR=team="+a.Team)
	}
	if a.Named {
		environ = append(environ, "HOOK_NAMES=drain,launch")
	}
	return environ
}

// policies are the keys of Nodes, and the variables that they replace.
func policies() map[string]string {
	return map[string]string{
		node.TimeoutKey: "DRAIN_TIMEOUT", node.AtDeadlineKey: "DRAIN_AT_DEADLINE",
		node.EvictionDelayKey: "DRAIN_EVICTION_DELAY",
	}
}

// withoutPolicies returns the variables without those that the Nodes have in their place.
func (a *agent) withoutPolicies() []string {
	environ := a.environ()
	if !a.ByNode {
		return environ
	}
	for _, variable := range policies() {
		environ = slices.DeleteFunc(environ, func(s string) bool { return strings.HasPrefix(s, variable+"=") })
	}
	return environ
}

// labels returns the policies of a Node as labels.
func (i Install) labels() map[string]string {
	labels := map[string]string{}
	for key, variable := range policies() {
		for _, s := range i.Settings {
			if value, ok := strings.CutPrefix(s, variable+"="); ok && i.ByNode {
				labels[key] = value
			}
		}
	}
	return labels
}

// runProcess runs one process until it ends or crashes.
func (a *agent) runProcess(ctx context.Context, cfg config.Agent) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dead, die := context.WithCancel(context.Background())
	defer die()
	p := &process{agent: a, kill: cancel, dead: dead, die: die}
	a.mu.Lock()
	a.ended, a.process = time.Time{}, p
	old := a.old
	a.mu.Unlock()
	client, err := p.kubernetes()
	if err != nil {
		return err
	}
	listener := newListener()
	env := app.Environment{AWS: p.aws(), Kubernetes: client, Listener: listener, Version: "sim"}
	env.HandOvers = map[string]handover.Releaser{groupKind: releaser{a.cluster, p}}
	logger := zerolog.New(a.world.log.writer(a.name)).Level(zerolog.InfoLevel)
	if old { // of a commit that knows no policies of Nodes
		return errors.Join(runOld(ctx, onlyKnown(a.environ(), oldVariables()), env, logger), context.Cause(ctx))
	}
	return errors.Join(app.RunIn(ctx, cfg, env, logger), context.Cause(ctx))
}

// crashAfter makes the process crash after n more writes, before it sees the answer of the last.
func (a *agent) crashAfter(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crashAt = n
}

// stopAfter has stop called when n more writes have been sent, before their answers.
func (a *agent) stopAfter(n int, stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopAt, a.stop = n, stop
}

// countSent counts a write that is sent now.
func (a *agent) countSent() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopAt--; a.stopAt == 0 {
		a.stop()
	}
}

// countWrite reports whether the process crashes now.
func (a *agent) countWrite() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crashAt--
	return a.crashAt == 0
}

// process is one process of an agent.
type process struct {
	agent *agent
	kill  context.CancelCauseFunc
	dead  context.Context // ends when the process crashes; only then, a request in flight is canceled by that alone
	die   func()

	mu      sync.Mutex
	crashed bool
}

func (p *process) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.crashed {
		p.crashed = true
		p.agent.mu.Lock()
		p.agent.ended = orNow(p.agent.ended)
		p.agent.mu.Unlock()
		p.agent.world.log.add(p.agent.name, "process crashed")
		p.kill(errCrashed)
		p.die()
	}
}

func (p *process) hasCrashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

// do makes a request, unless the process has crashed. A process that crashes gets no answer.
func (p *process) do(r *http.Request, isWrite bool, server http.RoundTripper) (*http.Response, error) {
	if p.hasCrashed() {
		return nil, errCrashed
	}
	if isWrite {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(p.dead, cancel)() //nolint:contextcheck // The request has the other one.
		r = r.WithContext(ctx)
		p.agent.countSent()
	}
	answer, err := server.RoundTrip(r)
	if err == nil && isWrite && p.agent.countWrite() {
		p.crash()
	}
	if p.hasCrashed() {
		return nil, errCrashed
	}
	return answer, err
}

// aws returns the configuration of the AWS SDK. It signs nothing, which would be half of the work of a call.
func (p *process) aws() aws.Config {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(p.agent.world.aws.URL()),
		Credentials: aws.AnonymousCredentials{}, HTTPClient: &http.Client{Transport: awsTransport{p}},
	}
}

type awsTransport struct{ *process }

// RoundTrip reads the body first, because the SDK closes it while a request is still served. The access key names the
// install, so that a call is known to be of it.
func (p awsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+p.agent.Name+"/sim")
	isRead := strings.Contains(string(body), "Action=Describe") ||
		strings.HasSuffix(r.Header.Get("X-Amz-Target"), "ReceiveMessage")
	return p.do(r, !isRead, p.agent.world.aws)
}

func (p *process) kubernetes() (kubernetes.Interface, error) {
	cfg := &rest.Config{
		Host: "http://kubernetes", Transport: kubeTransport{p}, QPS: -1, UserAgent: p.agent.Name,
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
	}
	if change := p.agent.world.rollouts.mutant.agents; change != nil {
		cfg.Transport, cfg.AcceptContentTypes = change(cfg.Transport), runtime.ContentTypeJSON
	}
	return kubernetes.NewForConfig(cfg)
}

type kubeTransport struct{ *process }

// RoundTrip is that of the API server.
func (p kubeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.do(r, r.Method != http.MethodGet, p.agent.cluster.server.Transport(p.agent.Name))
}

// listener is a net.Listener without connections.
type listener struct{ closed chan struct{} }

func newListener() net.Listener { return &listener{make(chan struct{})} }

// Accept returns when the listener is closed.
func (l *listener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

// Close may be called more than once, but not at the same time.
func (l *listener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// Addr returns an address that nothing listens on.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }
