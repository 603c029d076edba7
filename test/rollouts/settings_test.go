package rollouts

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	groups "github.com/node-drainer/node-drainer/internal/autoscaling"
	alarms "github.com/node-drainer/node-drainer/internal/cloudwatch"
	instances "github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// mutant changes what a trigger reads or writes, as a fault of it would. The judge must find it.
type mutant struct {
	reader func(rollout.Reader) rollout.Reader
	writer func(rollout.Writer) rollout.Writer
	config func(*rollout.Config)
}

type (
	reader struct {
		*groups.Reader
		*instances.LaunchReader
		*alarms.Alarms
	}
	nodegroupReader struct {
		reader
		*nodegroup.Reader
	}
	writer struct {
		*groups.Writer
		*instances.Machines
		nodeWriter
	}
	nodegroupWriter struct {
		writer
		*nodegroup.Writer
	}
)

// settings are the configuration and the clients of the process.
func (p *process) settings() (rollout.Config, rollout.Reader, rollout.Writer, rollout.Cluster) {
	cfg, machines := p.config(), ec2.NewFromConfig(p.config())
	auto := autoscaling.NewFromConfig(cfg)
	read := reader{groups.NewReader(auto), instances.NewLaunchReader(machines), alarms.New(cloudwatch.NewFromConfig(cfg))}
	write := writer{groups.NewWriter(auto), instances.NewMachines(machines), nodeWriter{p}}
	var r rollout.Reader = read
	var w rollout.Writer = write
	if p.spec.Options.Mode == refresh.ModeNodegroup {
		client := eks.NewFromConfig(cfg)
		launches := struct {
			*instances.LaunchReader
			*instances.SubnetReader
		}{read.LaunchReader, instances.NewSubnetReader(machines)}
		releases := nodegroup.NewReleases(ssm.NewFromConfig(cfg))
		r = nodegroupReader{read, nodegroup.NewReader(client, read, launches, releases, nodegroup.Request{Cluster: clusterName})}
		w = nodegroupWriter{write, nodegroup.NewWriter(client)}
	}
	if p.mutant.reader != nil {
		r = p.mutant.reader(r)
	}
	if p.mutant.writer != nil {
		w = p.mutant.writer(w)
	}
	var nodes rollout.Cluster
	if p.spec.Kubernetes {
		nodes = view{p.nodes}
	}
	c := p.configuration()
	if p.mutant.config != nil {
		p.mutant.config(&c)
	}
	return c, r, w, nodes
}

// configuration is that of the options, as package cli makes it of the flags.
func (p *process) configuration() rollout.Config {
	o := p.spec.Options
	cfg := rollout.Config{
		Selection: refresh.Selection{Cluster: clusterName}, Mode: o.Mode, MaxAge: o.MaxAge, All: o.All,
		Preferences: refresh.Preferences{
			SkipMatching: !o.All, Protected: "Ignore", Standby: "Ignore", Checkpoints: o.Checkpoints,
			AutoRollback: o.AutoRollback,
		},
		Strategy: o.Strategy, Pin: o.Pin, OnConflict: o.OnConflict,
		Pace: refresh.Pace{
			Batch: o.Batch, Between: o.Between, Order: o.Order, Then: o.Then,
		},
		Taint: o.Taint, Allow: []string{"hook-timeout", "no-terminating-hook"}, Suspend: o.Suspend, RaiseMax: o.RaiseMax,
		Wait: !o.NoWait, Until: o.Until, Timeout: o.Timeout, StallTimeout: o.Stall, ReadyTimeout: o.Ready,
		PollInterval: o.Poll, OnInterrupt: o.OnInterrupt, GateTimeout: 5 * time.Minute, Together: o.Together,
		Parallel: o.Parallel, FailFast: o.FailFast, Interval: 5 * time.Minute, Holder: p.name,
	}
	if p.final {
		cfg.Timeout, cfg.Wait = 0, true
	}
	p.addSurge(&cfg)
	if o.Gate {
		cfg.Gate = p.gate
	}
	if o.Newest {
		cfg.Version = "$Latest"
	}
	if o.Alarm {
		cfg.Preferences.Alarms = []string{alarm}
	}
	if o.Autoscaler {
		cfg.Autoscaler = p.newScaler()
	}
	if o.Exclude {
		cfg.Exclude = []string{"keep"}
	}
	if len(o.Checkpoints) > 0 {
		cfg.Preferences.CheckpointDelay = new(10 * time.Minute)
	}
	for hour := 1; o.Windows && hour < 24; hour += 2 {
		cfg.Windows = append(cfg.Windows, window(hour))
	}
	for _, g := range p.groups {
		cfg.Only = append(cfg.Only, g.only...)
	}
	if o.Mode == refresh.ModeNodegroup {
		cfg.Selection = refresh.Selection{}
	}
	return cfg
}

// addSurge adds the surge, which is of Auto Scaling in mode refresh.
func (p *process) addSurge(cfg *rollout.Config) {
	switch o := p.spec.Options; o.Mode {
	case refresh.ModeRefresh:
		cfg.Surge = &o.Surge
	case refresh.ModeUnhealthy:
		cfg.Pace.Surge, cfg.Pace.Step = o.Surge, o.Step
	case refresh.ModeStandby, refresh.ModeNodegroup:
	}
}

// window is open in the first half of an hour.
func window(hour int) refresh.Window {
	w, err := refresh.ParseWindow(fmt.Sprintf("%02d:00-%02d:30 UTC", hour, hour))
	if err != nil {
		panic(err) // cannot happen
	}
	return w
}
