package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// mistakes are everything that is wrong with a command line.
type mistakes []error

// Error names each mistake on a line of its own.
func (m mistakes) Error() string {
	lines := make([]string, len(m))
	for i, e := range m {
		lines[i] = "  " + e.Error()
	}
	return "there are mistakes (trigger --help lists the flags):\n" + strings.Join(lines, "\n")
}

// errNoTarget is what a user sees who does not know the trigger yet.
var errNoTarget = errors.New(`no Auto Scaling group is named. For example:

  trigger plan --asg workers                   tells what would be replaced, and why; changes nothing
  trigger --cluster prod --tag role=worker     replaces it in all groups of a cluster with a tag

trigger --help lists the flags`)

// targeted tells whether the settings name groups at all.
func (s *settings) targeted() bool {
	return len(s.Selection.Names) > 0 || s.Selection.Cluster != "" || len(s.tags) > 0
}

// contradictions are the settings that cannot be meant together.
func (s *settings) contradictions() []error {
	errs := s.strangers()
	all := slices.Concat(
		s.aboutPlan(), s.aboutWaiting(), s.aboutSelection(), s.aboutPace(), s.aboutRefresh(),
	)
	for _, c := range all {
		if c.so {
			errs = append(errs, errors.New(c.text))
		}
	}
	return errs
}

// contradiction is one that may be so.
type contradiction struct {
	so   bool
	text string
}

// called is how an option was given, for a message.
func (s *settings) called(name string) string {
	if as := s.given[name]; as != "" {
		return as
	}
	return "--" + name
}

// strangers are options that the mode does not have.
func (s *settings) strangers() []error {
	other, names := refresh.ModeRefresh, []string{
		"launch-template-version", "skip-matching", "strategy", "min-healthy", "max-healthy", "warmup",
		"checkpoints", "checkpoint-delay", "bake", "alarm", "auto-rollback", "pin", "standby",
		"on-conflict", "no-wait",
	}
	if s.Mode == refresh.ModeRefresh {
		other, names = refresh.ModeUnhealthy, []string{
			"max-age", "instance", "exclude-node-label", "batch", "between", "order",
		}
	}
	var errs []error
	for _, name := range names {
		if as, given := s.given[name]; given {
			errs = append(errs, fmt.Errorf("%s is for mode %s alone: leave it out, or set --mode %s",
				as, other, other))
		}
	}
	return errs
}

func (s *settings) aboutPlan() []contradiction {
	return []contradiction{
		{s.detailed && !s.plan, s.called("detailed-exitcode") + " is for a plan: add --plan, or leave it out"},
	}
}

func (s *settings) aboutWaiting() []contradiction {
	var errs []contradiction
	for _, name := range []string{"until", "timeout", "stall-timeout", "on-interrupt", "fail-fast", "suspend"} {
		as, given := s.given[name]
		errs = append(errs, contradiction{
			s.noWait && given, as + " needs that the refresh is waited for: leave it or --no-wait out",
		})
	}
	back := s.OnInterrupt == rollout.Rollback
	return append(errs, contradiction{
		back && s.Mode == refresh.ModeUnhealthy,
		s.called("on-interrupt") + " rollback is for mode refresh: in mode unhealthy nothing can be rolled back",
	}, contradiction{
		back && !s.Pin && s.Mode == refresh.ModeRefresh,
		s.called("on-interrupt") + " rollback needs a desired configuration to go back from: leave --pin=false out",
	})
}

func (s *settings) aboutSelection() []contradiction {
	_, explicit := s.given["skip-matching"]
	return []contradiction{
		{
			twiceTagged(s.tags),
			s.called("tag") + " gives one key two values: a group has one, so that none would fit",
		},
		{
			s.All && explicit && s.Preferences.SkipMatching,
			"--all replaces what matches too: leave it or --skip-matching out",
		},
		{s.All && len(s.Only) > 0, "--all and --instance say different things: leave one of them out"},
		{
			len(s.Exclude) > 0 && s.noKubernetes,
			s.called("exclude-node-label") + " needs Kubernetes: leave it or --no-kubernetes out",
		},
		{
			s.tainting() && s.noKubernetes,
			s.called("taint-outdated") + " needs Kubernetes: leave it or --no-kubernetes out",
		},
		{
			s.noKubernetes && (s.kubeconfig != "" || s.context != ""),
			"--no-kubernetes asks no cluster: leave it, or --kubeconfig and --context out",
		},
	}
}

// twiceTagged tells whether a key is among the tags with different values. A key alone goes with any value.
func twiceTagged(tags []string) bool {
	values := map[string]string{}
	for _, t := range tags {
		key, value, _ := strings.Cut(t, "=")
		if before := values[key]; before != "" && value != "" && before != value {
			return true
		}
		values[key] = cmp.Or(value, values[key])
	}
	return false
}

// aboutPace are rules of RefreshPreferences in the API reference, and what --surge stands for.
func (s *settings) aboutPace() []contradiction {
	low, high := s.Preferences.MinHealthy, s.Preferences.MaxHealthy
	_, strategy := s.given["strategy"]
	percent := low != nil || high != nil
	return []contradiction{
		{percent && s.surge != nil, "--surge stands for --min-healthy and --max-healthy: set it, or them"},
		{percent && strategy, "--strategy says how --surge is meant: with --min-healthy leave it out"},
		{high != nil && low == nil, s.called("max-healthy") + " needs --min-healthy: AWS takes it with that alone"},
		{
			low != nil && high != nil && *high-*low > 100,
			"--max-healthy must be no more than 100 above --min-healthy: AWS takes no more",
		},
		{
			s.Mode == refresh.ModeUnhealthy && s.surge != nil && s.surge.Percent,
			s.called("surge") + " must be a number in mode unhealthy: the desired capacity is raised by it",
		},
	}
}

func (s *settings) aboutRefresh() []contradiction {
	p := s.Preferences
	return []contradiction{
		{
			p.CheckpointDelay != nil && len(p.Checkpoints) == 0,
			s.called("checkpoint-delay") + " needs --checkpoints, as --checkpoints 10,50,100",
		},
		{len(p.Alarms) > 10, s.called("alarm") + " is given more than ten times: AWS takes ten"},
		{
			p.AutoRollback && !s.Pin,
			s.called("auto-rollback") + " needs a desired configuration to go back from: leave --pin=false out",
		},
		{
			s.Version != "" && !s.Pin,
			s.called("launch-template-version") + " is given to the refresh by its number: leave --pin=false out",
		},
	}
}
