package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// run runs the trigger and returns its exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	return newProgram(environ, stdout, stderr).run(ctx, args)
}

// read reads a command line as the program does, and does nothing.
func read(t *testing.T, environ []string, args ...string) (s *settings, asked operation, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := newProgram(environ, &out, &errs)
	p.perform = func(_ context.Context, v operation) (int, error) {
		s, asked = p.settings, v
		return 0, nil
	}
	if code := p.run(t.Context(), args); (code == 0) != (s != nil) || (code == 0) != (errs.Len() == 0) {
		t.Fatalf("exit code %d, settings %v, and %q", code, s, errs.String())
	}
	return s, asked, errs.String()
}

// TestConfig: what a command line and variables mean to package trigger.
func TestConfig(t *testing.T) {
	t.Parallel()
	plain := func() rollout.Config {
		return rollout.Config{
			Selection: refresh.Selection{Names: []string{"workers"}},
			Mode:      refresh.ModeRefresh,
			Preferences: refresh.Preferences{
				SkipMatching: true, Protected: "Ignore", Standby: "Ignore",
			},
			Surge:        &refresh.Amount{N: 10, Percent: true},
			Strategy:     refresh.LaunchFirst,
			Pin:          true,
			OnConflict:   rollout.Attach,
			Pace:         refresh.Pace{Batch: refresh.Amount{N: 1}, Order: refresh.ByAge},
			Taint:        cluster.NoTaint,
			Wait:         true,
			Until:        rollout.Drained,
			StallTimeout: time.Hour,
			PollInterval: 5 * time.Second,
			OnInterrupt:  rollout.Detach,
			Parallel:     1,
		}
	}
	for _, tt := range []struct {
		name    string
		args    string
		environ []string
		want    func(*rollout.Config)
	}{
		{"by default a tenth is launched first, skipping what matches", "--asg workers", nil, func(*rollout.Config) {}},
		{"groups are a list", "--asg workers,batch --asg gpu", nil, func(c *rollout.Config) {
			c.Selection.Names = []string{"workers", "batch", "gpu"}
		}},
		{"a cluster and tags select groups", "--cluster prod --tag role=worker,team --asg=workers", nil, func(c *rollout.Config) {
			c.Selection.Cluster, c.Selection.Tags = "prod", map[string]string{"role": "worker", "team": ""}
		}},
		{"a key of a tag is given alone and with a value", "--tag role=worker,role --asg workers", nil, func(c *rollout.Config) {
			c.Selection.Tags = map[string]string{"role": "worker"}
		}},
		{"a value of a tag may have an equals sign", "--tag a=b=c --asg workers", nil, func(c *rollout.Config) {
			c.Selection.Tags = map[string]string{"a": "b=c"}
		}},
		{"a variable stands for a flag", "", []string{"TRIGGER_ASG=workers", "TRIGGER_WARMUP=90s"}, func(c *rollout.Config) {
			c.Preferences.Warmup = new(90 * time.Second)
		}},
		{"a flag wins over its variable", "--asg workers --until replaced", []string{"TRIGGER_ASG=batch,gpu", "TRIGGER_UNTIL=terminated"}, func(c *rollout.Config) {
			c.Until = rollout.Replaced
		}},
		{"a false flag wins over a true variable", "--asg workers --fail-fast=false", []string{"TRIGGER_FAIL_FAST=true"}, func(*rollout.Config) {}},
		{"an empty variable is not set", "--asg workers", []string{"TRIGGER_MODE=", "TRIGGER_INSTANCE="}, func(*rollout.Config) {}},
		{"of a flag that is given twice the last counts", "--asg workers --until replaced --until terminated", nil, func(c *rollout.Config) {
			c.Until = rollout.Terminated
		}},
		{"percentages stand instead of a surge", "--asg workers --min-healthy 90 --max-healthy 150", nil, func(c *rollout.Config) {
			c.Surge, c.Preferences.MinHealthy, c.Preferences.MaxHealthy = nil, new(90), new(150)
		}},
		{"a least percentage alone does, too", "--asg workers --min-healthy 0", nil, func(c *rollout.Config) {
			c.Surge, c.Preferences.MinHealthy = nil, new(0)
		}},
		{"a surge is a number", "--asg workers --surge 2 --strategy terminate-first", nil, func(c *rollout.Config) {
			c.Surge, c.Strategy = &refresh.Amount{N: 2}, refresh.TerminateFirst
		}},
		{"a surge is a share", "--asg workers --surge 20%", nil, func(c *rollout.Config) {
			c.Surge = &refresh.Amount{N: 20, Percent: true}
		}},
		{"all preferences of a refresh", "--asg workers --warmup 2m --checkpoints 1,10 --checkpoints 100 --checkpoint-delay 0s --bake 1h " +
			"--alarm a,b --auto-rollback --protected wait --standby Terminate --on-conflict cancel --launch-template-version $Latest", nil, func(c *rollout.Config) {
			c.Preferences = refresh.Preferences{
				Warmup: new(2 * time.Minute), Checkpoints: []int{1, 10, 100}, CheckpointDelay: new(time.Duration(0)), Bake: new(time.Hour),
				Alarms: []string{"a", "b"}, AutoRollback: true, SkipMatching: true, Protected: "Wait", Standby: "Terminate",
			}
			c.OnConflict, c.Version = rollout.CancelActive, "$Latest"
		}},
		{"a refresh without a desired configuration", "--asg workers --pin=false", nil, func(c *rollout.Config) { c.Pin = false }},
		{"all is without skip matching", "--asg workers --all", nil, func(c *rollout.Config) { c.All, c.Preferences.SkipMatching = true, false }},
		{"without skip matching is all", "--asg workers --skip-matching=false", nil, func(c *rollout.Config) { c.All, c.Preferences.SkipMatching = true, false }},
		{"mode unhealthy has no surge by default", "--asg workers --mode unhealthy", nil, func(c *rollout.Config) { c.Mode, c.Surge = refresh.ModeUnhealthy, nil }},
		{
			"mode unhealthy, with all of it", "--asg workers --mode unhealthy --surge 2 --batch 25% --between 1m --order zone --max-age 720h " +
				"--instance i-0a,i-0b --exclude-node-label pet,team=data --on-interrupt cancel", nil, func(c *rollout.Config) {
				c.Mode, c.Surge, c.MaxAge = refresh.ModeUnhealthy, nil, 720*time.Hour
				c.Pace = refresh.Pace{Batch: refresh.Amount{N: 25, Percent: true}, Between: time.Minute, Order: refresh.ByZone, Surge: 2}
				c.Only, c.Exclude, c.OnInterrupt = []string{"i-0a", "i-0b"}, []string{"pet", "team=data"}, rollout.Cancel
			},
		},
		{"following", "--asg workers --until terminated --timeout 3h --stall-timeout 0s --poll-interval 200ms --parallel-asgs 0 --fail-fast --on-interrupt rollback", nil, func(c *rollout.Config) {
			c.Until, c.Timeout, c.StallTimeout, c.PollInterval = rollout.Terminated, 3*time.Hour, 0, 200*time.Millisecond
			c.Parallel, c.FailFast, c.OnInterrupt = 0, true, rollout.Rollback
		}},
		{"tainting, in both modes", "--asg workers --mode unhealthy --taint-outdated hard", nil, func(c *rollout.Config) {
			c.Mode, c.Surge, c.Taint = refresh.ModeUnhealthy, nil, cluster.HardTaint
		}},
		{"tainting by the variable", "--asg workers", []string{"TRIGGER_TAINT_OUTDATED=soft"}, func(c *rollout.Config) { c.Taint = cluster.SoftTaint }},
		{"not following", "--asg workers --no-wait --allow disruption-budgets,hook-timeout --allow-managed-nodegroup", nil, func(c *rollout.Config) {
			c.Wait, c.Allow, c.AllowManaged = false, []string{"disruption-budgets", "hook-timeout"}, true
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _, stderr := read(t, tt.environ, strings.Fields(tt.args)...)
			if s == nil {
				t.Fatal(stderr)
			}
			want := plain()
			tt.want(&want)
			if diff := cmp.Diff(want, s.config()); diff != "" {
				t.Errorf("the configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCommands: which command does what, and which flags it has.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, args string
		want       operation
		refused    string
	}{
		{"without a command it replaces", "--asg workers", opRun, ""},
		{"plan", "plan --asg workers", opPlan, ""},
		{"flags may come before the command", "--asg workers plan", opPlan, ""},
		{"--plan is plan", "--asg workers --plan", opPlan, ""},
		{"plan takes the flags of what it plans", "plan --asg workers --mode unhealthy --max-age 24h --timeout 1h --detailed-exitcode", opPlan, ""},
		{"status", "status --asg workers -o json", opStatus, ""},
		{"cancel", "cancel --asg workers --no-wait", "cancel", ""},
		{"rollback", "rollback --asg workers --timeout 1h", "rollback", ""},
		{"pause", "pause --cluster prod", "pause", ""},
		{"resume", "resume --tag role=worker", "resume", ""},
		{"status follows nothing", "status --asg workers --timeout 1h", "", "unknown flag: --timeout: trigger status --help lists them"},
		{"a mistyped flag", "--asg workers --time-out 2h", "", "unknown flag: --time-out: did you mean --timeout?"},
		{"cancel has no preferences", "cancel --asg workers --surge 1", "", "unknown flag: --surge"},
		{"a command that is not there", "plann --asg workers", "", `unknown command "plann" for "trigger"`},
		{"a command that resembles one", "stat --asg workers", "", "status"},
		{"an argument of a command", "plan workers", "", `unknown command "workers" for "trigger plan"`},
		{"no group", "", "", "trigger plan --asg workers"},
		{"no group to tell of", "status", "", "trigger --cluster prod"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, got, stderr := read(t, nil, strings.Fields(tt.args)...)
			if got != tt.want || !strings.Contains(stderr, tt.refused) {
				t.Errorf("it does %q and says %q, want %q and %q", got, stderr, tt.want, tt.refused)
			}
		})
	}
}

// TestMistakes: each is told by the name that it was given by, with what it must be.
func TestInvalidValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		args    string
		environ []string
		want    []string
	}{
		{"a word that is no mode", "--mode rolling", nil, []string{`--mode is "rolling": must be refresh or unhealthy`}},
		{"a variable", "", []string{"TRIGGER_ON_CONFLICT=stop"}, []string{`TRIGGER_ON_CONFLICT is "stop": must be attach, wait, cancel or fail`}},
		{"a duration without a unit", "--timeout 90", nil, []string{`--timeout is "90": must be a duration with a unit, such as 90s, 15m or 2h, from 0s to 336h`}},
		{"a duration that AWS does not take", "--bake 49h", nil, []string{`--bake is "49h": must be a duration with a unit, such as 90s, 15m or 2h, from 0s to 48h`}},
		{"half a second of warmup", "--warmup 1500ms", nil, []string{`--warmup is "1500ms": must be whole seconds`}},
		{"a percentage that AWS does not take", "--max-healthy 90 --min-healthy 101", nil, []string{
			`--min-healthy is "101": must be a whole number from 0 to 100`, `--max-healthy is "90": must be a whole number from 100 to 200`,
		}},
		{"checkpoints that fall", "--checkpoints 10,5", nil, []string{`--checkpoints is "5": must be ascending percentages from 1 to 100, for example 1,10,50,100`}},
		{"a checkpoint twice", "--checkpoints 10,10", nil, []string{`--checkpoints is "10": must be`}},
		{"no number of instances", "--surge none --batch 0", nil, []string{
			`--surge is "none": must be a number of instances or a percentage of them, such as 2 or 20%, and more than 0`, `--batch is "0": must be`,
		}},
		{"neither true nor false", "--pin=maybe", nil, []string{`--pin is "maybe": must be true or false`}},
		{"an empty name, as of a variable that a script did not set", "--cluster=", nil, []string{`--cluster is "": must be a name`}},
		{"an empty name in a list", "--asg a,,b", nil, []string{`--asg is "": must be a name`}},
		{"a tag without a key", "--tag =worker", nil, []string{`--tag is "=worker": must be KEY or KEY=VALUE`}},
		{"an instance that is none", "--mode unhealthy --instance node-1", nil, []string{`--instance is "node-1": must be an instance id, such as i-0123456789abcdef0`}},
		{"a version that the shell has eaten", "--launch-template-version=", nil, []string{`--launch-template-version is "": must be a number, '$Latest' or '$Default', in single quotes for the shell`}},
		{"version zero", "--launch-template-version 0", nil, []string{`--launch-template-version is "0": must be`}},
		{"a role that is no ARN", "--role-arn rollouts", nil, []string{`--role-arn is "rollouts": must be an ARN`}},
		{"a form that is not there", "-o yaml", nil, []string{`--output is "yaml": must be auto, text, json or ndjson`}},
		{"all mistakes are told at once", "--mode rolling --bake long", []string{"TRIGGER_UNTIL=done", "TRIGGER_ASGS=a"}, []string{
			"--mode is", "--bake is", "TRIGGER_UNTIL is", "unknown variable TRIGGER_ASGS",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expectErrors(t, tt.environ, "--asg workers "+tt.args, tt.want)
		})
	}
}

// expectErrors holds if a command line is refused for these reasons, and for no other.
func expectErrors(t *testing.T, environ []string, args string, want []string) {
	t.Helper()
	_, _, stderr := read(t, environ, strings.Fields(args)...)
	for _, w := range want {
		if strings.Count(stderr, "\n  "+w) != 1 {
			t.Errorf("%q is not told once", w)
		}
	}
	if got := strings.Count(stderr, "\n  "); got != len(want) {
		t.Errorf("%d mistakes are told, want %d", got, len(want))
	}
	if t.Failed() {
		t.Log(stderr)
	}
}

// TestContradictions: what cannot be meant together is refused, with what to do about it.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, args string
		want       []string
	}{
		{"a batch in mode refresh", "--batch 2", []string{"--batch is for mode unhealthy only: leave it out, or set --mode unhealthy"}},
		{"an age in mode refresh", "--max-age 24h", []string{"--max-age is for mode unhealthy only"}},
		{"all that only mode unhealthy has", "--instance i-0a --exclude-node-label pet --between 1m --order zone", []string{
			"--instance is", "--exclude-node-label is", "--between is", "--order is",
		}},
		{"all that only mode refresh has", "--mode unhealthy --bake 1m --pin=false --checkpoints 100 --alarm a --warmup 1m --no-wait --launch-template-version 3 --skip-matching", []string{
			"--bake is for mode refresh only: leave it out, or set --mode refresh", "--pin is", "--checkpoints is", "--alarm is",
			"--warmup is", "--no-wait is", "--launch-template-version is for", "--skip-matching is", "--launch-template-version is pinned",
		}},
		{"a surge and percentages", "--surge 1 --min-healthy 90", []string{"--surge stands for --min-healthy and --max-healthy: set it, or them"}},
		{"a strategy and percentages", "--strategy launch-first --min-healthy 90", []string{"--strategy applies to --surge: with --min-healthy leave it out"}},
		{"a most without a least", "--max-healthy 120", []string{"--max-healthy needs --min-healthy"}},
		{"a most too far above the least", "--min-healthy 50 --max-healthy 151", []string{"--max-healthy must be at most 100 above --min-healthy"}},
		{"a share of a surge in mode unhealthy", "--mode unhealthy --surge 20%", []string{"--surge must be a number in mode unhealthy"}},
		{"a delay without checkpoints", "--checkpoint-delay 1m", []string{"--checkpoint-delay needs --checkpoints"}},
		{"eleven alarms", "--alarm 1,2,3,4,5,6,7,8,9,10,11", []string{"--alarm is given more than ten times"}},
		{"a rollback to nowhere", "--auto-rollback --pin=false --on-interrupt rollback", []string{
			"--auto-rollback needs a desired configuration", "--on-interrupt rollback needs a desired configuration",
		}},
		{"a version that is not told to the refresh", "--launch-template-version 3 --pin=false", []string{"--launch-template-version is pinned by its number: leave --pin=false out"}},
		{"a rollback in mode unhealthy", "--mode unhealthy --on-interrupt rollback", []string{"--on-interrupt rollback is for mode refresh"}},
		{"following what is not waited for", "--no-wait --until drained --timeout 1h --stall-timeout 1h --on-interrupt cancel --fail-fast", []string{
			"--until has no effect with --no-wait: leave one of them out", "--timeout has no effect", "--stall-timeout has", "--on-interrupt has", "--fail-fast has",
		}},
		{"the exit code of a plan without one", "--detailed-exitcode", []string{"--detailed-exitcode is for plans only: add --plan, or leave it out"}},
		{"all, but what matches", "--all --skip-matching", []string{"--all also replaces matching instances: leave it or --skip-matching out"}},
		{"two values of one tag", "--tag role=worker --tag role=infra", []string{"--tag sets two values for one key"}},
		{"all, and some", "--mode unhealthy --all --instance i-0a", []string{"--all and --instance exclude each other"}},
		{"labels of nodes without Kubernetes", "--mode unhealthy --exclude-node-label pet --no-kubernetes", []string{"--exclude-node-label needs Kubernetes"}},
		{"taints without Kubernetes", "--taint-outdated soft --no-kubernetes", []string{"--taint-outdated needs Kubernetes: leave it or --no-kubernetes out"}},
		{"a taint that evicts", "--taint-outdated NoExecute", []string{`--taint-outdated is "NoExecute": must be none, soft or hard`}},
		{"a cluster without Kubernetes", "--no-kubernetes --context prod", []string{"--no-kubernetes uses no cluster"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expectErrors(t, nil, "--asg workers "+tt.args, tt.want)
		})
	}
	t.Run("one that is given by its variable is called by that", func(t *testing.T) {
		t.Parallel()
		expectErrors(t, []string{"TRIGGER_BATCH=2", "TRIGGER_CHECKPOINT_DELAY=1m"}, "--asg workers", []string{
			"TRIGGER_BATCH is for mode unhealthy only", "TRIGGER_CHECKPOINT_DELAY needs --checkpoints",
		})
	})
}

// TestVariables: a variable that is none of ours is refused, if it looks like one.
func TestVariables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, variable, want string
	}{
		{"a letter too many", "TRIGGER_ASGS", ": did you mean TRIGGER_ASG?"},
		{"a letter too few", "TRIGGER_MAX_HEALTY", ": did you mean TRIGGER_MAX_HEALTHY?"},
		{"the beginning of several", "TRIGGER_CHECKPOINT", ": did you mean TRIGGER_CHECKPOINTS or TRIGGER_CHECKPOINT_DELAY?"},
		{"nothing like it", "TRIGGER_HAPPY", ": trigger --help lists them"},
		{"what Kubernetes injects for a Service", "TRIGGER_SERVICE_HOST", ""},
		{"its port", "TRIGGER_SERVICE_PORT", ""},
		{"its port by name", "TRIGGER_SERVICE_PORT_HTTP", ""},
		{"its port as Docker had it", "TRIGGER_PORT", ""},
		{"and its parts", "TRIGGER_PORT_8080_TCP_ADDR", ""},
		{"of a Service whose name begins so", "TRIGGER_HOOKS_SERVICE_HOST", ""},
		{"what GitLab gives a pipeline that a webhook has triggered", "TRIGGER_PAYLOAD", ""},
		{"a variable of others", "MY_TRIGGER_ASG", ""},
		{"one of ours that the command does not have", "TRIGGER_MODE", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, stderr := read(t, []string{tt.variable + "=1"}, "status", "--asg", "workers")
			want := ""
			if tt.want != "" {
				want = "\n  unknown variable " + tt.variable + tt.want + "\n"
			}
			if !strings.HasSuffix(stderr, want) || want == "" && stderr != "" {
				t.Errorf("it says %q, want %q", stderr, want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--version"}, nil, &stdout, &stderr); code != 0 || stdout.String() != "trigger version dev\n" {
		t.Errorf("exit code %d: %q, %q", code, stdout.String(), stderr.String())
	}
}

// TestFailures: what failed is told, and decides on the exit code.
func TestFailures(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		code int
		err  error
		want int
	}{
		{"an error is 1", t.Context(), 0, errors.New("AccessDenied"), 1},
		{"an error after the interrupt is its", stopped, 0, context.Canceled, 130},
		{"what a rollout ended with is more than an error of its summary", t.Context(), 3, errors.New("no space"), 3},
		{"what a rollout ended with", t.Context(), 7, nil, 7},
		{"a rollout that was interrupted", stopped, 130, nil, 130},
		{"a rollout that ended before the interrupt", stopped, 0, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			p := newProgram(nil, &stdout, &stderr)
			p.perform = func(context.Context, operation) (int, error) { return tt.code, tt.err }
			if code := p.run(tt.ctx, []string{"--asg", "workers"}); code != tt.want {
				t.Errorf("exit code %d, want %d", code, tt.want)
			}
			if want := tt.err; want != nil && stderr.String() != "trigger: "+want.Error()+"\n" {
				t.Errorf("it says %q", stderr.String())
			}
		})
	}
}

// TestSignals: the first signal stops the trigger in order, and only the second one ends the program.
func TestSignals(t *testing.T) {
	t.Parallel()
	signals, asked, ended := make(chan os.Signal), make(chan bool, 1), make(chan bool)
	go handleSignals(signals, func() { asked <- true }, func() { close(ended) })
	signals <- os.Interrupt
	<-asked
	select {
	case <-ended:
		t.Fatal("the first signal has ended it")
	default:
	}
	signals <- os.Interrupt
	<-ended
}

var update = flag.Bool("update", false, "write testdata/help.txt anew")

// TestHelp: what --help says is looked at before it changes.
func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	got := strings.Replace(stdout.String(), indent(report.ExitCodes()), "  (of internal/report)\n", 1)
	golden := filepath.Join("testdata", "help.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test ./internal/cli -run TestHelp -update writes it anew (-want +got):\n%s", diff)
	}
	for line := range strings.Lines(got) {
		if len(strings.TrimRight(line, "\n")) > 110 {
			t.Errorf("the line is too long: %s", line)
		}
	}
}

// TestOptions: each has a sentence, and what it may be.
func TestOptions(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, o := range newProgram(nil, nil, nil).options() {
		if slices.Contains(seen, o.name) {
			t.Errorf("%s is there twice", o.flag())
		}
		seen = append(seen, o.name)
		if o.help == "" || !strings.HasSuffix(o.help, ".") {
			t.Errorf("%s: the help is no sentence: %q", o.flag(), o.help)
		}
		if strings.ContainsAny(o.help+o.initial, "|`") {
			t.Errorf("%s: the help would break a table: %q", o.flag(), o.help)
		}
	}
}

// TestDefaults: what the help shows as a default changes nothing when it is given.
func TestDefaults(t *testing.T) {
	t.Parallel()
	plain, _, _ := read(t, nil, "--asg", "workers")
	for _, o := range newProgram(nil, nil, nil).options() {
		if o.initial == "" || o.name == "batch" || o.name == "order" { // which mode refresh does not have
			continue
		}
		s, _, stderr := read(t, nil, "--asg", "workers", o.flag()+"="+o.initial)
		if s == nil {
			t.Errorf("%s: %s", o.flag(), stderr)
			continue
		}
		if diff := cmp.Diff(plain.config(), s.config()); diff != "" {
			t.Errorf("%s=%s changes:\n%s", o.flag(), o.initial, diff)
		}
	}
}
