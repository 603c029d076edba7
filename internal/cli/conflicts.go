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

// usageErrors is everything that is wrong with the flags and variables.
type usageErrors []error

// Error lists the errors, each on a line of its own.
func (u usageErrors) Error() string {
	lines := make([]string, len(u))
	for i, e := range u {
		lines[i] = "  " + e.Error()
	}
	return "invalid flags or variables (trigger --help lists them):\n" + strings.Join(lines, "\n")
}

// errNoTarget is for a user who does not know the trigger yet.
var errNoTarget = errors.New(`no Auto Scaling group is named. For example:

  trigger plan --asg workers                   shows what would be replaced, and why; changes nothing
  trigger --cluster prod --tag role=worker     replaces it in all groups of a cluster with a tag

trigger --help lists the flags`)

// namesGroups reports whether the settings select groups at all.
func (s *settings) namesGroups() bool {
	return len(s.Selection.Names) > 0 || s.Selection.Cluster != "" || len(s.tags) > 0
}

// conflicts returns an error for each combination of settings that contradicts itself.
func (s *settings) conflicts() []error {
	errs := s.wrongModeFlags()
	all := slices.Concat(
		s.planConflicts(), s.waitConflicts(), s.selectionConflicts(), s.paceConflicts(), s.refreshConflicts(),
	)
	for _, c := range all {
		if c.applies {
			errs = append(errs, errors.New(c.text))
		}
	}
	return errs
}

// conflict is a combination of settings that contradicts itself, if it applies.
type conflict struct {
	applies bool
	text    string
}

// flagName is the flag or variable by which an option was given, for a message.
func (s *settings) flagName(name string) string {
	if as := s.given[name]; as != "" {
		return as
	}
	return "--" + name
}

// wrongModeFlags returns an error for each option that the mode does not have.
func (s *settings) wrongModeFlags() []error {
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
			errs = append(errs, fmt.Errorf("%s is for mode %s only: leave it out, or set --mode %s",
				as, other, other))
		}
	}
	return errs
}

func (s *settings) planConflicts() []conflict {
	return []conflict{
		{s.detailed && !s.plan, s.flagName("detailed-exitcode") + " is for plans only: add --plan, or leave it out"},
	}
}

func (s *settings) waitConflicts() []conflict {
	var errs []conflict
	for _, name := range []string{"until", "timeout", "stall-timeout", "on-interrupt", "fail-fast", "suspend"} {
		as, given := s.given[name]
		errs = append(errs, conflict{
			s.noWait && given, as + " has no effect with --no-wait: leave one of them out",
		})
	}
	back := s.OnInterrupt == rollout.Rollback
	return append(errs, conflict{
		back && s.Mode == refresh.ModeUnhealthy,
		s.flagName("on-interrupt") + " rollback is for mode refresh: in mode unhealthy nothing can be rolled back",
	}, conflict{
		back && !s.Pin && s.Mode == refresh.ModeRefresh,
		s.flagName("on-interrupt") + " rollback needs a desired configuration: leave --pin=false out",
	})
}

func (s *settings) selectionConflicts() []conflict {
	_, explicit := s.given["skip-matching"]
	return []conflict{
		{
			hasContradictingTags(s.tags),
			s.flagName("tag") + " sets two values for one key: no group matches both",
		},
		{
			s.All && explicit && s.Preferences.SkipMatching,
			"--all also replaces matching instances: leave it or --skip-matching out",
		},
		{s.All && len(s.Only) > 0, "--all and --instance exclude each other: leave one of them out"},
		{
			len(s.Exclude) > 0 && s.noKubernetes,
			s.flagName("exclude-node-label") + " needs Kubernetes: leave it or --no-kubernetes out",
		},
		{
			s.taintsNodes() && s.noKubernetes,
			s.flagName("taint-outdated") + " needs Kubernetes: leave it or --no-kubernetes out",
		},
		{
			s.noKubernetes && (s.kubeconfig != "" || s.context != ""),
			"--no-kubernetes uses no cluster: leave it, or --kubeconfig and --context out",
		},
	}
}

// hasContradictingTags reports whether a key is among the tags with two values. A key alone matches any
// value.
func hasContradictingTags(tags []string) bool {
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

// paceConflicts holds rules of RefreshPreferences in the API reference, and what --surge stands for.
func (s *settings) paceConflicts() []conflict {
	low, high := s.Preferences.MinHealthy, s.Preferences.MaxHealthy
	_, strategy := s.given["strategy"]
	percent := low != nil || high != nil
	return []conflict{
		{percent && s.surge != nil, "--surge stands for --min-healthy and --max-healthy: set it, or them"},
		{percent && strategy, "--strategy applies to --surge: with --min-healthy leave it out"},
		{high != nil && low == nil, s.flagName("max-healthy") + " needs --min-healthy: AWS does not accept it alone"},
		{
			low != nil && high != nil && *high-*low > 100,
			"--max-healthy must be at most 100 above --min-healthy: AWS accepts no more",
		},
		{
			s.Mode == refresh.ModeUnhealthy && s.surge != nil && s.surge.Percent,
			s.flagName("surge") + " must be a number in mode unhealthy: the desired capacity is raised by it",
		},
	}
}

func (s *settings) refreshConflicts() []conflict {
	p := s.Preferences
	return []conflict{
		{
			p.CheckpointDelay != nil && len(p.Checkpoints) == 0,
			s.flagName("checkpoint-delay") + " needs --checkpoints, for example --checkpoints 10,50,100",
		},
		{len(p.Alarms) > 10, s.flagName("alarm") + " is given more than ten times: AWS accepts ten"},
		{
			p.AutoRollback && !s.Pin,
			s.flagName("auto-rollback") + " needs a desired configuration: leave --pin=false out",
		},
		{
			s.Version != "" && !s.Pin,
			s.flagName("launch-template-version") + " is pinned by its number: leave --pin=false out",
		},
	}
}
