package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// settings are the parsed flags and variables.
type settings struct {
	plan.Config // without what several options make up together: see config

	tags   []string
	noWait bool
	surge  *refresh.Amount
	gate   gate.Gate

	detailed      bool
	follow        bool   // trigger nodes shows the nodes again after each change
	lease, listen string // of trigger watch
	subject       string // the node or the instance of trigger history; empty is all
	configMap     string // of trigger history, NAMESPACE/NAME
	output        report.Format
	summaryFile   string

	autoscaler string // the Deployment to pause, NAMESPACE/NAME

	nodegroups nodegroupSettings

	cloud        cloud.Config
	kubeconfig   string
	context      string
	noKubernetes bool

	options options
}

func newSettings() *settings {
	return &settings{
		Config: plan.Config{
			Mode:         refresh.ModeRefresh,
			Pin:          refresh.PinAuto,
			Preferences:  refresh.Preferences{Protected: "Ignore", Standby: "Ignore"},
			OnConflict:   plan.Attach,
			Pace:         refresh.Pace{Batch: refresh.Amount{N: 1}, Order: refresh.ByAge, Then: refresh.ThenTerminate},
			Taint:        cluster.NoTaint,
			Until:        plan.Drained,
			StallTimeout: time.Hour,
			GateTimeout:  5 * time.Minute,
			PollInterval: 5 * time.Second,
			OnInterrupt:  plan.Detach,
			Together:     refresh.PhaseCheck,
			Parallel:     1,
			Interval:     5 * time.Minute,
		},
		output: report.FormatAuto,
	}
}

// config returns the configuration of package rollout. The settings must have no conflicts.
func (s *settings) config() plan.Config {
	c := s.Config
	c.Selection.Tags, _ = tagsOf(s.tags)
	c.Order = c.Selection.Names
	if c.Mode == refresh.ModeNodegroup { // The request selects them.
		c.Order, c.Selection, c.Version = s.nodegroups.request.Names, refresh.Selection{}, ""
	}
	c.Wait, c.Preferences.SkipMatching = !s.noWait, !s.All
	if s.gate != (gate.Gate{}) {
		c.Gate = s.gate
	}
	if c.Mode.InBatches() {
		c.Surge = nil
		if s.surge != nil {
			c.Pace.Surge = *s.surge
		}
		return c
	}
	c.Surge = s.surge
	if c.Surge == nil && c.Preferences.MinHealthy == nil {
		c.Surge = &refresh.Amount{N: 10, Percent: true}
	}
	return c
}

// tagsOf parses KEY=VALUE, and KEY for any value. It also reports whether a key has two values.
func tagsOf(texts []string) (tags map[string]string, contradicting bool) {
	tags = map[string]string{}
	for _, t := range texts {
		key, value, _ := strings.Cut(t, "=")
		before := tags[key]
		contradicting = contradicting || before != "" && value != "" && before != value
		tags[key] = cmp.Or(value, before)
	}
	return tags, contradicting
}
