package rollouts

import (
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// mutant changes what a trigger reads or writes, as a fault of it would. The judge must find it.
type mutant struct {
	reader func(plan.Reader) plan.Reader
	writer func(rollout.Writer) rollout.Writer
	config func(*plan.Config)
}

// settings are the configuration and the clients of the process.
func (p *process) settings() (plan.Config, plan.Reader, rollout.Writer, plan.Cluster) {
	r, w := Clients(p.config(), p.spec.Options.Mode, nodegroup.Request{Cluster: clusterName}, nodeWriter{p})
	if p.mutant.reader != nil {
		r = p.mutant.reader(r)
	}
	if p.mutant.writer != nil {
		w = p.mutant.writer(w)
	}
	var nodes plan.Cluster
	if p.spec.Kubernetes {
		nodes = view{p.nodes}
	}
	c := p.configuration()
	if p.mutant.config != nil {
		p.mutant.config(&c)
	}
	return c, r, w, nodes
}

// configuration is that of the process.
func (p *process) configuration() plan.Config {
	o := p.spec.Options
	cfg := o.Config(p.name)
	cfg.Selection = refresh.Selection{Cluster: clusterName}
	if p.final {
		cfg.Timeout, cfg.Wait = 0, true
	}
	if o.Gate {
		cfg.Gate = p.gate
	}
	if o.Autoscaler {
		cfg.Autoscaler = p.newScaler()
	}
	for _, g := range p.groups {
		cfg.Only = append(cfg.Only, g.only...)
	}
	if o.Mode == refresh.ModeNodegroup {
		cfg.Selection = refresh.Selection{}
	}
	return cfg
}
