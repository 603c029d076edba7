package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	nodes "github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/rollouts"
)

// Trigger is a process of the trigger, which replaces outdated instances of the groups of a cluster.
type Trigger struct {
	At        time.Duration
	Cluster   string
	Command   rollouts.Command `json:",omitempty"`
	Options   rollouts.Options // the same for all triggers of a cluster
	Kill      int              `json:",omitempty"` // it is killed after so many calls that change something; 0 is never
	Interrupt time.Duration    `json:",omitempty"` // it is interrupted after so long; 0 is never
}

// errKilled is the error of a request of a process that was killed.
var errKilled = errors.New("the process was killed")

// longestRollout is how long a process may take that is not a watch.
const longestRollout = 24 * time.Hour

// isJoint reports whether triggers take part.
func (w *world) isJoint() bool { return len(w.spec.Triggers) > 0 }

// triggerProcess is a process of the trigger. When it is killed, it makes no call any more.
type triggerProcess struct {
	Trigger
	*rolloutFacts
	name    string
	cluster *cluster
	final   bool // it is one of those at the end: nothing interferes
	began   time.Time
	cancel  context.CancelFunc

	mu       sync.Mutex
	naming   string // the group whose tag names an instance that the next call is to terminate with a part of the surge
	calls    int
	dead     bool
	outcomes []report.Group
}

// execute runs the process until it ends, and returns how the groups have ended.
func (p *triggerProcess) execute(ctx context.Context) []report.Group {
	ctx, p.cancel = context.WithCancel(ctx)
	defer p.cancel()
	p.began = time.Now()
	if p.Interrupt > 0 {
		defer time.AfterFunc(p.Interrupt, p.cancel).Stop()
	}
	p.log.add(p.name, "process starts: trigger "+string(p.Command))
	err := p.work(ctx)
	p.log.add(p.name, "process ended", "error", err)
	p.judgeEnd()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcomes
}

// work does what the command says.
func (p *triggerProcess) work(ctx context.Context) error {
	clients, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer clients.close()
	cfg := p.Options.Config(p.name + "/1")
	cfg.Selection = refresh.Selection{Cluster: p.cluster.Name}
	if p.final {
		cfg.Timeout = 0
	}
	if p.Options.Gate {
		cfg.Gate = p.gate
	}
	command := p.Command
	if n := p.Options.Only; n > 0 {
		if cfg.Only = p.nameInstances(p.cluster, n); len(cfg.Only) == 0 {
			command = rollouts.Resume // An earlier process may have been killed.
			defer p.skip()
		}
	}
	if p.Options.Autoscaler {
		cfg.Autoscaler = autoscaler.New(clients.kubernetes, autoscalerKey().String())
	}
	clients.mutate(&cfg, p.mutant)
	t := rollout.New(cfg, clients.reader, clients.writer, clients.view, p.newReporter())
	switch command {
	case rollouts.Trigger:
		_, err = t.Run(ctx)
	case rollouts.Watch:
		err = rollout.NewWatcher(cfg, clients.reader, clients.writer, clients.view, rollout.WatchEnvironment{
			NewReporter: func() report.Reporter { return p.newReporter() }, Observer: rollouts.Observer{},
		}).Run(ctx)
	case rollouts.Rollback, rollouts.Resume, rollouts.Cancel, rollouts.Pause:
		_, err = t.Act(ctx, rollout.Action(command))
	}
	return err
}

// skip records that no instance is left that the process could name.
func (p *triggerProcess) skip() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.cluster.Groups {
		p.outcomes = append(p.outcomes, report.Group{Name: g.Name, Outcome: report.Skipped})
	}
}

func (p *triggerProcess) newReporter() *rollouts.Reporter {
	return &rollouts.Reporter{Write: func(text string) { p.log.add(p.name, text) }, Ended: p.groupEnded}
}

// groupEnded keeps how the rollout of a group has ended.
func (p *triggerProcess) groupEnded(g report.Group) {
	p.mu.Lock()
	p.outcomes = append(p.outcomes, g)
	p.mu.Unlock()
	p.judgeOutcome(p, g)
}

// triggerClients are those of AWS and Kubernetes.
type triggerClients struct {
	reader plan.Reader
	writer rollout.Writer
	view   plan.Cluster // nil without Kubernetes

	kubernetes kubernetes.Interface
	close      func()
}

// mutate changes the clients and the configuration as a fault of the trigger would.
func (c *triggerClients) mutate(cfg *plan.Config, m mutant) {
	if m.reader != nil {
		c.reader = m.reader(c.reader)
	}
	if m.writer != nil {
		c.writer = m.writer(c.writer)
	}
	if m.view != nil && c.view != nil {
		c.view = m.view(c.view)
	}
	if m.config != nil {
		m.config(cfg)
	}
}

// mutant is a fault of the trigger, or of the agents, which the judge must find.
type mutant struct {
	reader func(plan.Reader) plan.Reader
	writer func(rollout.Writer) rollout.Writer
	view   func(plan.Cluster) plan.Cluster
	config func(*plan.Config)
	// agents is between agents and API servers, which then encode everything as JSON.
	agents func(http.RoundTripper) http.RoundTripper
}

// connect makes the clients as package cli does: without an answer of the API server it continues without Kubernetes,
// unless the options require it.
func (p *triggerProcess) connect(ctx context.Context) (*triggerClients, error) {
	client, err := p.kubernetes()
	if err != nil {
		return nil, err
	}
	clients := &triggerClients{close: func() {}, kubernetes: client}
	view, stop, err := watchNodes(ctx, client)
	o := p.Options
	switch {
	case err == nil:
		clients.view, clients.close = view, stop
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case o.Taint != nodes.NoTaint || o.Ready > 0 || o.Autoscaler || o.Then != refresh.ThenTerminate:
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	default:
		p.log.add(p.name, "continuing without Kubernetes", "error", err)
	}
	clients.reader, clients.writer = rollouts.Clients(p.config(), o.Mode,
		nodegroup.Request{Cluster: p.cluster.Name, Force: o.Force}, nodes.NewTainter(client))
	return clients, nil
}

// watchNodes returns a View that watches the nodes until stop is called. An interrupt does not stop it.
func watchNodes(ctx context.Context, client kubernetes.Interface) (view *nodes.View, stop func(), err error) {
	view = nodes.New(client)
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { failed <- view.Run(watching, 10*time.Second) })
	stop = func() {
		cancel()
		running.Wait()
	}
	select {
	case <-view.Synced():
		return view, stop, nil
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	return nil, nil, err
}

// kubernetes returns the client of the API server.
func (p *triggerProcess) kubernetes() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host: "http://kubernetes", Transport: triggerKube{p}, QPS: -1, UserAgent: p.name,
		WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
	})
}

// config is that of the clients of AWS, with the retries of the production clients.
func (p *triggerProcess) config() aws.Config {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(p.aws.URL()), Credentials: aws.AnonymousCredentials{},
		HTTPClient: &http.Client{Transport: triggerAWS{p}},
		Retryer:    func() aws.Retryer { return rollouts.Retryer(p.isDead) },
	}
}

func (p *triggerProcess) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// count counts a call that changes something, and reports whether it is the last one.
func (p *triggerProcess) count(changes bool) (last bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false, errKilled
	}
	if changes {
		p.calls++
	}
	return changes && p.Kill > 0 && p.calls >= p.Kill, nil
}

func (p *triggerProcess) kill() {
	p.log.add(p.name, "process killed")
	p.mu.Lock()
	p.dead = true
	naming := p.naming
	p.mu.Unlock()
	p.keepsPart(naming)
	p.cancel()
}

// do makes a request, after which the process may be killed: then it gets no answer.
func (p *triggerProcess) do(r *http.Request, changes bool, server http.RoundTripper) (*http.Response, error) {
	last, err := p.count(changes)
	if err != nil {
		return nil, err
	}
	answer, err := server.RoundTrip(r)
	if last {
		p.kill()
	}
	if p.isDead() {
		return nil, errKilled
	}
	return answer, err
}

// triggerKube is the transport to the API server.
type triggerKube struct{ *triggerProcess }

// RoundTrip is that of the API server.
func (p triggerKube) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.do(r, r.Method != http.MethodGet, p.cluster.server.Transport(p.name))
}

// triggerAWS is the transport to AWS.
type triggerAWS struct{ *triggerProcess }

// RoundTrip has the judge see a call that changes something before AWS does.
func (p triggerAWS) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil { // Those of EKS that read have none.
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+p.name+"/sim")
	c := p.callOf(r.URL, body)
	if c.changes && !p.isDead() {
		p.judgeCall(p.triggerProcess, c)
	}
	return p.do(r, c.changes, p.aws)
}

// triggerCall is a call of AWS.
type triggerCall struct {
	action  string
	form    url.Values
	changes bool
	group   string
	ids     []string
}

// callOf reads what a call does to which group.
func (p *triggerProcess) callOf(to *url.URL, body []byte) (c triggerCall) {
	if path := strings.Split(to.Path, "/"); strings.HasSuffix(to.Path, "/update-version") {
		return triggerCall{action: "UpdateNodegroupVersion", changes: true, group: p.aws.GroupName(p.cluster.Name, path[4])}
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return c
	}
	c.form, c.action = form, form.Get("Action")
	c.changes = c.action != "" && !strings.HasPrefix(c.action, "Describe") && !strings.HasPrefix(c.action, "Get")
	for key, values := range form {
		if strings.HasPrefix(key, "InstanceId") {
			c.ids = append(c.ids, values...)
		}
	}
	slices.Sort(c.ids)
	c.group = form.Get("AutoScalingGroupName") + form.Get("Tags.member.1.ResourceId")
	if c.group == "" && len(c.ids) > 0 {
		c.group, _, _ = p.aws.Member(c.ids[0])
	}
	return c
}
