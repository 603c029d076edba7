package rollouts

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
)

var errKilled = errors.New("the process was killed")

// process is a trigger. When it is killed, it makes no call any more.
type process struct {
	*world
	name         string
	run          Run
	final        bool // It is one of those at the end: nothing interferes.
	began        time.Time
	cancel       context.CancelFunc
	descriptions descriptions

	mu       sync.Mutex
	calls    int
	dead     bool
	stopped  time.Time // when it was interrupted
	changes  map[*group]int
	outcomes map[*group]report.Outcome // of the rollouts that have ended
	batches  map[*group]time.Time      // when it has begun to replace instances last
}

func (w *world) newProcess(name string, run Run) *process {
	return &process{
		world: w, name: name, run: run, began: time.Now(), changes: map[*group]int{}, outcomes: map[*group]report.Outcome{},
		batches: map[*group]time.Time{}, descriptions: descriptions{spec: w.spec},
	}
}

// execute runs the process until it ends. The error is one of the simulation.
func (p *process) execute(ctx context.Context) (ended report.Rollout, err error) {
	ctx, p.cancel = context.WithCancel(ctx)
	defer p.cancel()
	if after := p.run.Interrupt; after > 0 {
		defer time.AfterFunc(after, p.interrupt).Stop()
	}
	p.note(p.name, "starts: trigger %s", p.run.Command)
	cfg, reader, writer, view := p.settings()
	t := rollout.New(cfg, reader, writer, view, p.newReporter())
	switch p.run.Command {
	case Watch:
		err = rollout.NewWatcher(cfg, reader, writer, view, rollout.WatchEnvironment{
			NewReporter: func() report.Reporter { return p.newReporter() }, Observer: Observer{},
		}).Run(ctx)
	case Trigger:
		ended, err = t.Run(ctx)
	case Rollback, Resume, Cancel, Pause:
		ended, err = t.Act(ctx, rollout.Action(p.run.Command))
	}
	p.note(p.name, "has ended: %v", err)
	return ended, nil //nolint:nilerr // It is of a call that failed, and may fail.
}

func (p *process) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = time.Now()
	p.cancel()
}

// count counts a call. It is an error if the process is dead.
func (p *process) count(changes bool) (last bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false, errKilled
	}
	if changes || p.run.Reads {
		p.calls++
	}
	return p.run.Kill > 0 && p.calls >= p.run.Kill, nil
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		p.note(p.name, "is killed")
	}
	p.dead = true
	p.cancel()
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// change makes a change in the cluster, as a call that may be the last one.
func (p *process) change(do func()) error {
	return p.call(true, func() error {
		p.nodes.mu.Lock()
		defer p.nodes.mu.Unlock()
		do()
		return nil
	})
}

// call makes a call of Kubernetes, which may be the last one of the process.
func (p *process) call(changes bool, do func() error) error {
	last, err := p.count(changes)
	if err != nil {
		return err
	}
	err = do()
	if last {
		p.kill()
		return errKilled
	}
	return err
}

// call is a call of AWS.
type call struct {
	action  string
	form    url.Values
	changes bool
	group   *group
	ids     []string
}

// RoundTrip has AWS serve a call, and the judge see it before and after that.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		read, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = read
	}
	c := p.callOf(r, body)
	last, err := p.count(c.changes)
	if err != nil {
		return nil, err
	}
	if c.changes {
		p.judge.before(p, c)
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+p.name+"/sim")
	response, err := p.aws.RoundTrip(r)
	if c.changes {
		p.judge.after(p, c, response)
	}
	if last {
		p.kill()
		return nil, errKilled
	}
	if err != nil {
		return nil, err
	}
	return p.descriptions.change(c, response)
}

// callOf reads what a call does to which group.
func (p *process) callOf(r *http.Request, body []byte) call {
	c := call{changes: r.Method != http.MethodGet}
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") != "" {
		c.form, c.action = form, form.Get("Action")
	} else if _, target, json := strings.Cut(r.Header.Get("X-Amz-Target"), "."); json {
		c.action = target
	} else if strings.HasSuffix(r.URL.Path, "/update-version") {
		c.action = "UpdateNodegroupVersion"
		c.group = p.named(strings.Split(r.URL.Path, "/")[4])
	}
	if strings.HasPrefix(c.action, "Describe") || strings.HasPrefix(c.action, "Get") {
		c.changes = false
	}
	for key, values := range c.form {
		if strings.HasPrefix(key, "InstanceId") {
			c.ids = append(c.ids, values...)
		}
	}
	switch name := c.form.Get("AutoScalingGroupName") + c.form.Get("Tags.member.1.ResourceId"); {
	case name != "":
		c.group = p.named(name)
	case len(c.ids) > 0:
		c.group, _ = p.find(c.ids[0])
	}
	return c
}

// config is that of the production clients.
func (p *process) config() aws.Config {
	cfg := configOf(p.aws.URL(), p)
	cfg.Retryer = func() aws.Retryer { return Retryer(p.isDead) }
	return cfg
}

// newReporter returns a Reporter that has the judge see how groups end.
func (p *process) newReporter() report.Reporter {
	return &Reporter{
		Write: func(text string) { p.note(p.name, "%s", text) },
		Ended: func(g report.Group) { p.judge.ended(p, p.named(g.Name), g) },
	}
}
