package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// usageError lists everything that is wrong with the flags and variables, each on a line of its own.
func usageError(errs []error) error {
	lines := []string{"invalid flags or variables (trigger --help-all lists them):"}
	for _, err := range errs {
		lines = append(lines, "  "+err.Error())
	}
	return errors.New(strings.Join(lines, "\n"))
}

// errNoTarget is for a user who does not know the trigger yet.
var errNoTarget = errors.New(`no Auto Scaling group is named. For example:

  trigger plan --asg workers                   shows what would be replaced, and why; changes nothing
  trigger --cluster prod --tag role=worker     replaces it in all groups of a cluster with a tag

trigger --help lists the commands, and the flags used most`)

// namesGroups reports whether the settings select groups at all.
func (s *settings) namesGroups() bool {
	return len(s.Selection.Names) > 0 || s.Selection.Cluster != "" || len(s.tags) > 0 || s.nodegroups.selected()
}

// rule is a combination of settings that contradicts itself, and that the traits of single options do not say.
type rule struct {
	applies bool
	text    string
}

// conflicts returns an error for each combination that contradicts itself.
func (s *settings) conflicts(v operation) []error {
	rules := slices.Concat(s.selectionRules(), s.refreshRules())
	switch v {
	case opHistory:
		rules = nil
	case opNodes:
		rules = s.againRules()
	case opStatus:
		rules = append(rules, s.againRules()...)
	case opWatch:
		rules = append(rules, s.watchRules()...)
	case rollout.ActCancel, rollout.ActRollback, rollout.ActPause:
		rules = append(rules, rule{s.nodegroups.selected(), fmt.Sprintf(
			"trigger %s is for Instance Refreshes: EKS has no call that does this to an update of a node group", v)})
	}
	errs := s.options.refusals(s)
	for _, r := range rules {
		if r.applies {
			errs = append(errs, errors.New(r.text))
		}
	}
	return errs
}

func (s *settings) selectionRules() []rule {
	_, contradicting := tagsOf(s.tags)
	return []rule{
		{contradicting, s.options.source("tag") + " sets two values for one key: no group matches both"},
		{
			s.Mode == refresh.ModeNodegroup && !s.nodegroups.selected(),
			s.options.source("mode") + " nodegroup needs --nodegroup NAME, or --all-nodegroups",
		},
	}
}

// refreshRules are those of RefreshPreferences in the API reference, and those of a desired configuration.
func (s *settings) refreshRules() []rule {
	p, source := s.Preferences, s.options.source
	unpinned, delay := s.Pin == refresh.PinNever, time.Hour
	if p.CheckpointDelay != nil {
		delay = *p.CheckpointDelay
	}
	return []rule{
		{
			p.MinHealthy != nil && p.MaxHealthy != nil && *p.MaxHealthy-*p.MinHealthy > 100,
			"--max-healthy must be at most 100 above --min-healthy: AWS accepts no more",
		},
		{len(p.Alarms) > 10, source("alarm") + " is given more than ten times: AWS accepts ten"},
		{
			p.AutoRollback && unpinned,
			source("auto-rollback") + " needs a desired configuration: leave --pin=false out",
		},
		{
			s.OnInterrupt == plan.Rollback && unpinned,
			source("on-interrupt") + " rollback needs a desired configuration: leave --pin=false out",
		},
		{
			s.Version != "" && unpinned,
			source("launch-template-version") + " is pinned by its number: leave --pin=false out",
		},
		{
			// A poll finds that the refresh has come to the checkpoint, and the pause of a gate that fails takes a call.
			s.gate != (gate.Gate{}) && len(p.Checkpoints) > 0 && s.GateTimeout+2*s.PollInterval > delay,
			fmt.Sprintf("--gate-timeout is %v and --checkpoint-delay %v: AWS continues after the delay, so that the gate has "+
				"at most %v, two times --poll-interval less", s.GateTimeout, delay, max(0, delay-2*s.PollInterval)),
		},
	}
}

// watchRules are those of trigger watch.
func (s *settings) watchRules() []rule {
	const again = " would replace the same instances in each round: leave it out"
	source, points := s.options.source, s.Preferences.Checkpoints
	return []rule{
		{s.All, source("all") + again},
		{len(s.Only) > 0, source("instance") + again},
		{
			len(points) > 0 && points[len(points)-1] < 100,
			source("checkpoints") + " must end with 100: otherwise each round would replace some more",
		},
		{s.noWait, source("no-wait") + " has no effect on trigger watch: leave it out"},
		{
			s.output == report.FormatJSON,
			source("output") + " json is one document, and trigger watch does not end: use text or ndjson",
		},
		{s.summaryFile != "", source("summary-file") + " has no effect on trigger watch: leave it out"},
		{
			len(s.Windows) > 0 && (s.autoscaler != "" || len(s.Suspend) > 0),
			source("window") + " leaves a rollout between two windows as it is, with the autoscaler paused and processes " +
				"suspended all day: leave --pause-autoscaler and --suspend out",
		},
	}
}

// againRules are those of trigger nodes and trigger status.
func (s *settings) againRules() []rule {
	return []rule{{
		s.follow && s.output == report.FormatJSON,
		s.options.source("watch") + " writes more than one document: use --output ndjson, or leave it out",
	}}
}
