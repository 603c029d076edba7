package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// usageError lists everything that is wrong with the flags and variables, each on a line of its own.
func usageError(errs []error) error {
	lines := []string{"invalid flags or variables (trigger --help lists them):"}
	for _, err := range errs {
		lines = append(lines, "  "+err.Error())
	}
	return errors.New(strings.Join(lines, "\n"))
}

// errNoTarget is for a user who does not know the trigger yet.
var errNoTarget = errors.New(`no Auto Scaling group is named. For example:

  trigger plan --asg workers                   shows what would be replaced, and why; changes nothing
  trigger --cluster prod --tag role=worker     replaces it in all groups of a cluster with a tag

trigger --help lists the flags`)

// namesGroups reports whether the settings select groups at all.
func (s *settings) namesGroups() bool {
	return len(s.Selection.Names) > 0 || s.Selection.Cluster != "" || len(s.tags) > 0 || s.nodegroups.selected()
}

// conflicts collects the combinations of settings that contradict themselves.
type conflicts []error

func (c *conflicts) addIf(applies bool, text string) {
	if applies {
		*c = append(*c, errors.New(text))
	}
}

// conflicts returns an error for each combination that contradicts itself.
func (s *settings) conflicts() []error {
	var c conflicts
	s.addModeConflicts(&c)
	addNodegroupConflicts(s, &c)
	s.addWaitConflicts(&c)
	s.addSelectionConflicts(&c)
	s.addKubernetesConflicts(&c)
	s.addPaceConflicts(&c)
	s.addPinConflicts(&c)
	s.addGateConflicts(&c)
	return c
}

// flagName is the flag or variable by which an option was given, for a message.
func (s *settings) flagName(name string) string {
	return cmp.Or(s.given[name], "--"+name)
}

// addModeConflicts adds the options that the mode does not have.
func (s *settings) addModeConflicts(c *conflicts) {
	ofRefresh := []string{
		"skip-matching", "strategy", "min-healthy", "max-healthy", "warmup", "checkpoints", "checkpoint-delay", "bake",
		"alarm", "auto-rollback", "pin", "standby",
	}
	byAWS := []string{"launch-template-version", "on-conflict", "no-wait"}
	inBatches := []string{"max-age", "instance", "exclude-node-label", "batch", "between", "order"}
	switch s.Mode {
	case refresh.ModeRefresh:
		s.addForOther(c, inBatches, refresh.ModeUnhealthy, refresh.ModeStandby)
		s.addForOther(c, []string{"surge-step"}, refresh.ModeUnhealthy)
	case refresh.ModeNodegroup:
		s.addForOther(c, ofRefresh, refresh.ModeRefresh)
		s.addForOther(c, inBatches, refresh.ModeUnhealthy, refresh.ModeStandby)
		s.addForOther(c, []string{"surge-step"}, refresh.ModeUnhealthy)
	case refresh.ModeUnhealthy:
		s.addForOther(c, ofRefresh, refresh.ModeRefresh)
		s.addForOther(c, byAWS, refresh.ModeRefresh, refresh.ModeNodegroup)
	case refresh.ModeStandby:
		s.addForOther(c, ofRefresh, refresh.ModeRefresh)
		s.addForOther(c, byAWS, refresh.ModeRefresh, refresh.ModeNodegroup)
		s.addForOther(c, []string{"surge", "raise-max"}, refresh.ModeRefresh, refresh.ModeUnhealthy)
		s.addForOther(c, []string{"surge-step"}, refresh.ModeUnhealthy)
	}
	if s.Mode != refresh.ModeStandby {
		s.addForOther(c, []string{"then"}, refresh.ModeStandby)
	}
	c.addIf(s.Pace.Then != refresh.ThenTerminate && s.noKubernetes,
		s.flagName("then")+" "+string(s.Pace.Then)+" needs Kubernetes: leave it or --no-kubernetes out")
	c.addIf(s.Mode == refresh.ModeRefresh && s.Together == refresh.PhaseSurge,
		s.flagName("together")+" surge is for mode unhealthy: an Instance Refresh launches and terminates in turns")
	c.addIf(s.Mode == refresh.ModeNodegroup && s.Together == refresh.PhaseSurge,
		s.flagName("together")+" surge is for mode unhealthy: EKS launches and terminates in turns")
	c.addIf(s.Mode == refresh.ModeStandby && s.Together == refresh.PhaseSurge,
		s.flagName("together")+" surge is for mode unhealthy: mode standby has no surge")
}

// addForOther adds those of the options that are given, although only the other modes have them.
func (s *settings) addForOther(c *conflicts, names []string, modes ...refresh.Mode) {
	all := make([]string, len(modes))
	for i, m := range modes {
		all[i] = string(m)
	}
	for _, name := range names {
		source, given := s.given[name]
		c.addIf(given, fmt.Sprintf("%s is for mode %s only: leave it out, or set --mode %[2]s", source, alternatives(all)))
	}
}

func (s *settings) addWaitConflicts(c *conflicts) {
	c.addIf(s.detailed && !s.plan,
		s.flagName("detailed-exitcode")+" is for plans only: add --plan, or leave it out")
	for _, name := range []string{
		"until", "timeout", "stall-timeout", "ready-timeout", "on-interrupt", "fail-fast", "suspend",
		"pause-autoscaler", "gate-command", "gate-url",
	} {
		source, given := s.given[name]
		c.addIf(s.noWait && given, source+" has no effect with --no-wait: leave one of them out")
	}
	rollback, inBatches := s.OnInterrupt == rollout.Rollback, s.Mode.InBatches()
	c.addIf(rollback && inBatches,
		s.flagName("on-interrupt")+" rollback is for mode refresh: in mode "+string(s.Mode)+" nothing is rolled back")
	c.addIf(rollback && !inBatches && s.Pin == refresh.PinNever,
		s.flagName("on-interrupt")+" rollback needs a desired configuration: leave --pin=false out")
}

func (s *settings) addSelectionConflicts(c *conflicts) {
	_, explicit := s.given["skip-matching"]
	_, contradicting := tagsOf(s.tags)
	c.addIf(contradicting,
		s.flagName("tag")+" sets two values for one key: no group matches both")
	c.addIf(s.All && explicit && s.Preferences.SkipMatching,
		"--all also replaces matching instances: leave it or --skip-matching out")
	c.addIf(s.All && len(s.Only) > 0, "--all and --instance exclude each other: leave one of them out")
	c.addIf(s.cloud.ExternalID != "" && s.cloud.RoleARN == "",
		s.flagName("external-id")+" is sent when a role is assumed: add --role-arn, or leave it out")
}

// addKubernetesConflicts adds what needs Kubernetes, or names another cluster than none.
func (s *settings) addKubernetesConflicts(c *conflicts) {
	if !s.noKubernetes {
		return
	}
	for _, o := range []struct {
		name  string
		given bool
	}{
		{"exclude-node-label", len(s.Exclude) > 0},
		{"taint-outdated", s.Taint != cluster.NoTaint},
		{"ready-timeout", s.ReadyTimeout > 0},
		{"pause-autoscaler", s.autoscaler != ""},
	} {
		c.addIf(o.given, s.flagName(o.name)+" needs Kubernetes: leave it or --no-kubernetes out")
	}
	c.addIf(s.kubeconfig != "" || s.context != "",
		"--no-kubernetes uses no cluster: leave it, or --kubeconfig and --context out")
}

// addPaceConflicts adds what breaks the rules of RefreshPreferences in the API reference, and what
// contradicts --surge, which stands for two of them.
func (s *settings) addPaceConflicts(c *conflicts) {
	low, high := s.Preferences.MinHealthy, s.Preferences.MaxHealthy
	_, strategy := s.given["strategy"]
	percent := low != nil || high != nil
	c.addIf(percent && s.surge != nil, "--surge stands for --min-healthy and --max-healthy: set it, or them")
	c.addIf(percent && strategy, "--strategy applies to --surge: with --min-healthy leave it out")
	c.addIf(s.Pace.Step != (refresh.Amount{}) && s.surge == nil,
		s.flagName("surge-step")+" needs --surge, for example --surge 100%")
	c.addIf(high != nil && low == nil,
		s.flagName("max-healthy")+" needs --min-healthy: AWS does not accept it alone")
	c.addIf(low != nil && high != nil && *high-*low > 100,
		"--max-healthy must be at most 100 above --min-healthy: AWS accepts no more")
	c.addIf(s.Preferences.CheckpointDelay != nil && len(s.Preferences.Checkpoints) == 0,
		s.flagName("checkpoint-delay")+" needs --checkpoints, for example --checkpoints 10,50,100")
	c.addIf(len(s.Preferences.Alarms) > 10, s.flagName("alarm")+" is given more than ten times: AWS accepts ten")
}

// addGateConflicts adds a gate for which AWS would not wait at a checkpoint.
func (s *settings) addGateConflicts(c *conflicts) {
	none := s.gate == gate.Gate{}
	delay := time.Hour
	if s.Preferences.CheckpointDelay != nil {
		delay = *s.Preferences.CheckpointDelay
	}
	c.addIf(!none && len(s.Preferences.Checkpoints) > 0 && s.GateTimeout >= delay, fmt.Sprintf(
		"--gate-timeout is %v and --checkpoint-delay %v: AWS continues after the delay, so that a gate needs less",
		s.GateTimeout, delay))
}

func (s *settings) addPinConflicts(c *conflicts) {
	c.addIf(s.Preferences.AutoRollback && s.Pin == refresh.PinNever,
		s.flagName("auto-rollback")+" needs a desired configuration: leave --pin=false out")
	c.addIf(s.Version != "" && s.Pin == refresh.PinNever,
		s.flagName("launch-template-version")+" is pinned by its number: leave --pin=false out")
}
