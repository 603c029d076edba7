package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/redispods"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// writeFigures are what became of the writes to a group of Redis while the nodes of its leaders were drained.
type writeFigures struct {
	Scenario     string  `json:"scenario"`
	Contestant   string  `json:"contestant"`
	Round        int     `json:"round"`
	Drains       int     `json:"drains"`
	Acknowledged int     `json:"writesAcknowledged"`
	Lost         int     `json:"writesLost"` // Acknowledged, and not stored.
	Gap          float64 `json:"longestGapSeconds"`
}

// runRedis has a contestant drain the nodes of the leaders of a group, one after the other.
func (b *bench) runRedis(ctx context.Context, r *round) (f writeFigures, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundTimeout,
		fmt.Errorf("a round takes no longer than %v", roundTimeout))
	defer cancel()
	group, err := redisserver.New(ctx, r.scenario.Redis)
	if err != nil {
		return f, err
	}
	report, drains, err := redisserver.Report{}, 0, startRedis(ctx, r, group)
	if err == nil {
		report, drains, err = b.drainLeaders(ctx, r)
	}
	if r.redis == nil {
		err = errors.Join(err, group.Close())
	} else {
		err = errors.Join(err, r.redis.Close())
	}
	if err != nil {
		return f, fmt.Errorf("%s, round %d of %s: %w", r.scenario.Name, r.number, r.contestant, err)
	}
	r.progress("drains: %d, writes: %s", drains, report)
	return writeFigures{
		Scenario: r.scenario.Name, Contestant: r.contestant, Round: r.number, Drains: drains,
		Acknowledged: report.Acknowledged, Lost: report.Lost, Gap: report.Gap.Seconds(),
	}, nil
}

// startRedis runs the servers of the group as pods, with as many nodes to move to as it has leaders.
func startRedis(ctx context.Context, r *round, group *redisserver.Group) error {
	r.namespace = r.id
	if err := harness.CreateNamespace(ctx, r.client, r.namespace); err != nil {
		return err
	}
	for range len(group.Servers) + len(group.Sentinels) + len(group.Leaders(ctx)) {
		r.spare = append(r.spare, cluster.NodeName(cluster.NewInstanceID()))
	}
	if err := r.createNodes(ctx, r.spare); err != nil {
		return err
	}
	var err error
	r.redis, err = redispods.Start(ctx, redispods.Options{
		Cluster: r.cluster, Namespace: r.namespace, HandOver: r.contestant == agentName, Move: r.scenario.Move,
	}, group)
	return err
}

// drainLeaders drains, and returns what became of the writes meanwhile.
func (b *bench) drainLeaders(ctx context.Context, r *round) (report redisserver.Report, drains int, err error) {
	leaders := r.redis.Leaders(ctx)
	writers := redisserver.WriteAll(ctx, r.redis.Group)
	for i, leader := range leaders {
		if i > 0 {
			if err := errors.Join(r.redis.WaitReady(ctx), r.redis.WaitWhole(ctx)); err != nil {
				return report, i, err
			}
		}
		if err := writers.WaitAcknowledged(ctx); err != nil {
			return report, i, err
		}
		if err := b.drainNodeOf(ctx, r, leader); err != nil {
			return report, i, err
		}
	}
	if err := writers.WaitAcknowledged(ctx); err != nil {
		return report, len(leaders), err
	}
	report, err = writers.Stop(ctx)
	return report, len(leaders), err
}

// drainNodeOf has the contestant of a round drain the node of a server.
func (b *bench) drainNodeOf(ctx context.Context, r *round, s *redisserver.Server) (err error) {
	node, err := r.redis.NodeOf(ctx, s)
	if err != nil {
		return err
	}
	one, err := b.newRound(r.cluster, r.scenario, r.contestant, r.number)
	if err != nil {
		return err
	}
	one.namespace, one.redis, one.draining = r.namespace, r.redis, []string{node}
	c := one.newContestant()
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.start(ctx); err != nil {
		return err
	}
	return c.wait(ctx)
}

// failover asks a sentinel for a failover, as preStop hooks do, before it drains as kubectl does.
type failover struct{ kubectl }

func (f *failover) start(ctx context.Context) error {
	before := f.redis.Named(ctx)
	if _, err := f.redis.Sentinels[0].Do(ctx, "SENTINEL", "FAILOVER", redisserver.Master); err != nil {
		return err
	}
	err := harness.Eventually(ctx, func() string {
		if now := f.redis.Named(ctx); now == nil || now == before {
			return "the sentinels name no other leader"
		}
		return ""
	})
	if err != nil {
		return err
	}
	return f.kubectl.start(ctx)
}

// sumWrites sums up the rounds of each contestant in each scenario, and takes the longest gap.
func sumWrites(all []writeFigures) (sums []writeFigures) {
	for _, f := range all {
		i := slices.IndexFunc(sums, func(s writeFigures) bool {
			return s.Scenario == f.Scenario && s.Contestant == f.Contestant
		})
		if i < 0 {
			sums = append(sums, f)
			continue
		}
		s := &sums[i]
		s.Drains, s.Acknowledged, s.Lost = s.Drains+f.Drains, s.Acknowledged+f.Acknowledged, s.Lost+f.Lost
		s.Gap = max(s.Gap, f.Gap)
	}
	return sums
}

// writeTable has a row for each contestant in each scenario.
func writeTable(all []writeFigures) [][]string {
	rows := [][]string{{"scenario", "contestant", "drains", "longest gap", "writes lost", "of"}}
	for _, f := range sumWrites(all) {
		rows = append(rows, []string{
			f.Scenario, f.Contestant, fmt.Sprint(f.Drains), fmt.Sprintf("%.2f s", f.Gap), fmt.Sprint(f.Lost),
			fmt.Sprint(f.Acknowledged),
		})
	}
	return rows
}

// compareWrites compares the agent with the targets for Redis.
func compareWrites(all []writeFigures) (targets []target) {
	for _, bound := range []struct {
		mode redisserver.Mode
		gap  float64
	}{{redisserver.Sentinel, 2}, {redisserver.Cluster, 0.25}, {redisserver.Plain, 1.5}} {
		name := statefulPart + "-" + string(bound.mode)
		lost := target{Name: "writes lost in " + name, Want: "<= 0", Got: notMeasured}
		gap := target{Name: "longest gap of writes in " + name, Want: fmt.Sprintf("<= %g s", bound.gap), Got: notMeasured}
		for _, f := range sumWrites(all) {
			if f.Scenario == name && f.Contestant == agentName {
				lost.Got, lost.Where, lost.Known, lost.Holds = fmt.Sprint(f.Lost), name, true, f.Lost == 0
				gap.Got, gap.Where, gap.Known, gap.Holds = fmt.Sprintf("%.2f s", f.Gap), name, true, f.Gap <= bound.gap
			}
		}
		targets = append(targets, lost, gap)
	}
	return targets
}
