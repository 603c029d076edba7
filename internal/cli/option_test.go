package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInvalidValues: an error names the flag or variable, and the valid values.
func TestInvalidValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		args    string
		environ []string
		want    []string
	}{
		{"mode", "--mode rolling", nil, []string{`--mode is "rolling": must be refresh, unhealthy, standby or nodegroup`}},
		{"variable", "", []string{"TRIGGER_ON_CONFLICT=stop"}, []string{`TRIGGER_ON_CONFLICT is "stop": must be attach, wait, cancel or fail`}},
		{"duration without a unit", "--timeout 90", nil, []string{`--timeout is "90": must be a duration with a unit, such as 90s, 15m, 2h or 30d, from 0s to 336h`}},
		{"duration above the limit of AWS", "--bake 49h", nil, []string{`--bake is "49h": must be a duration with a unit, such as 90s, 15m, 2h or 30d, from 0s to 48h`}},
		{"fraction of a second", "--warmup 1500ms", nil, []string{`--warmup is "1500ms": must be whole seconds`}},
		{"percentage out of range", "--max-healthy 90 --min-healthy 101", nil, []string{
			`--min-healthy is "101": must be a whole number from 0 to 100`, `--max-healthy is "90": must be a whole number from 100 to 200`,
		}},
		{"descending checkpoints", "--checkpoints 10,5", nil, []string{`--checkpoints is "5": must be ascending percentages from 1 to 100, for example 1,10,50,100`}},
		{"repeated checkpoint", "--checkpoints 10,10", nil, []string{`--checkpoints is "10": must be`}},
		{"number of instances", "--surge none --batch 0", nil, []string{
			`--surge is "none": must be a number of instances or a percentage of them, such as 2 or 20%, from 1 or 1% to 100%`, `--batch is "0": must be`,
		}},
		{"more than all", "--surge 200%", nil, []string{`--surge is "200%": must be a number of instances or a percentage of them, such as 2 or 20%, from 1 or 1% to 100%`}},
		{"days and more", "--mode unhealthy --max-age 30d12h", nil, []string{`--max-age is "30d12h": must be a duration with a unit, such as 90s, 15m, 2h or 30d`}},
		{"port without a host", "watch --listen 80", nil, []string{`--listen is "80": must be HOST:PORT or :PORT`}},
		{"boolean", "--all=maybe", nil, []string{`--all is "maybe": must be true or false`}},
		{"boolean, or automatic", "--pin=maybe", nil, []string{`--pin is "maybe": must be auto, true or false`}},
		{"empty name", "--cluster=", nil, []string{`--cluster is "": must be a name`}},
		{"empty name in a list", "--asg a,,b", nil, []string{`--asg is "": must be a name`}},
		{"tag without a key", "--tag =worker", nil, []string{`--tag is "=worker": must be KEY=VALUE, or KEY alone for any value`}},
		{"tag whose value the shell has expanded to nothing", "--tag role=", nil, []string{`--tag is "role=": must be KEY=VALUE, or KEY alone for any value`}},
		{"empty variables that would select more", "--mode unhealthy", []string{"TRIGGER_CLUSTER=", "TRIGGER_TAG=", "TRIGGER_INSTANCE=", "TRIGGER_EXCLUDE_NODE_LABEL=", "TRIGGER_UNTIL="}, []string{
			"TRIGGER_CLUSTER is empty: unset it, or set it to what is to be replaced", "TRIGGER_TAG is empty", "TRIGGER_INSTANCE is empty",
			"TRIGGER_EXCLUDE_NODE_LABEL is empty",
		}},
		{"instance id", "--mode unhealthy --instance node-1", nil, []string{`--instance is "node-1": must be an instance id, such as i-0123456789abcdef0`}},
		{"version that the shell has expanded to nothing", "--launch-template-version=", nil, []string{`--launch-template-version is "": must be a number, '$Latest' or '$Default', in single quotes for the shell`}},
		{"version zero", "--launch-template-version 0", nil, []string{`--launch-template-version is "0": must be`}},
		{"role that is not an ARN", "--role-arn rollouts", nil, []string{`--role-arn is "rollouts": must be an ARN`}},
		{"mistyped check", "--allow hook-timout", nil, []string{`--allow is "hook-timout": must be the name of a check: did you mean hook-timeout?`}},
		{"window", "watch --window 25:00-26:00", nil, []string{`--window is "25:00-26:00": must be a window from 00:00 to 24:00`}},
		{"time zone", "watch ", []string{"TRIGGER_WINDOW=Sat 00:00-24:00 UTC, 22:00-05:00 Atlantis"}, []string{
			`TRIGGER_WINDOW is "22:00-05:00 Atlantis": must be a window in a time zone such as Europe/Berlin or UTC: unknown time zone Atlantis`,
		}},
		{"output format", "-o yaml", nil, []string{`--output is "yaml": must be auto, text, json or ndjson`}},
		{"all errors at once", "--mode rolling --bake long", []string{"TRIGGER_UNTIL=done", "TRIGGER_ASGS=a"}, []string{
			"--mode is", "--bake is", "TRIGGER_UNTIL is", "unknown variable TRIGGER_ASGS",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expectErrors(t, tt.environ, forWorkers(tt.args), tt.want)
		})
	}
}

// forWorkers adds a group to the arguments, which may begin with the command watch.
func forWorkers(args string) string {
	args, isWatch := strings.CutPrefix(args, "watch ")
	if isWatch {
		return "watch --asg workers " + args
	}
	return "--asg workers " + args
}

// expectErrors fails the test unless a command line is rejected with these errors, and no other.
func expectErrors(t *testing.T, environ []string, args string, want []string) {
	t.Helper()
	_, _, stderr := read(t, environ, strings.Fields(args)...)
	for _, w := range want {
		if strings.Count(stderr, "\n  "+w) != 1 {
			t.Errorf("%q is not reported exactly once", w)
		}
	}
	if got := strings.Count(stderr, "\n  "); got != len(want) {
		t.Errorf("%d errors, want %d", got, len(want))
	}
	if t.Failed() {
		t.Log(stderr)
	}
}

// TestConflicts: contradicting settings are rejected, and the error says which to leave out.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, args string
		want       []string
	}{
		{"batch in mode refresh", "--batch 2", []string{"--batch is for mode unhealthy or standby only: leave it out, or set --mode unhealthy or standby"}},
		{"age in mode refresh", "--max-age 24h", []string{"--max-age is for mode unhealthy or standby only"}},
		{"all flags of mode unhealthy", "--instance i-0a --exclude-node-label pet --between 1m --order zone", []string{
			"--instance is", "--exclude-node-label is", "--between is", "--order is",
		}},
		{"all flags of mode refresh", "--mode unhealthy --bake 1m --pin=false --checkpoints 100 --alarm a --warmup 1m --no-wait --launch-template-version 3", []string{
			"--bake is for mode refresh only: leave it out, or set --mode refresh", "--pin is", "--checkpoints is", "--alarm is",
			"--warmup is", "--no-wait is", "--launch-template-version is for", "--launch-template-version is pinned",
		}},
		{"surge in mode standby", "--mode standby --surge 2 --raise-max --batch 2", []string{
			"--surge is for mode refresh or unhealthy only: leave it out, or set --mode refresh or unhealthy", "--raise-max is",
		}},
		{"then in mode unhealthy", "--mode unhealthy --then stop", []string{"--then is for mode standby only"}},
		{"then without Kubernetes", "--mode standby --then keep --no-kubernetes", []string{"--then needs Kubernetes"}},
		{"rollback in mode standby", "--mode standby --on-interrupt rollback", []string{"--on-interrupt rollback is for mode refresh only: leave it out, or set --mode refresh"}},
		{"surge and percentages", "--surge 1 --min-healthy 90", []string{"--min-healthy and --surge exclude each other: leave one of them out"}},
		{"maximum without minimum", "--max-healthy 120", []string{"--max-healthy needs --min-healthy"}},
		{"maximum too far above minimum", "--min-healthy 50 --max-healthy 151", []string{"--max-healthy must be at most 100 above --min-healthy"}},
		{"delay without checkpoints", "--checkpoint-delay 1m", []string{"--checkpoint-delay needs --checkpoints"}},
		{"eleven alarms", "--alarm 1,2,3,4,5,6,7,8,9,10,11", []string{"--alarm is given more than ten times"}},
		{"rollback without --pin", "--auto-rollback --pin=false --on-interrupt rollback", []string{
			"--auto-rollback needs a desired configuration", "--on-interrupt rollback needs a desired configuration",
		}},
		{"version without --pin", "--launch-template-version 3 --pin=false", []string{"--launch-template-version is pinned by its number: leave --pin=false out"}},
		{"rollback in mode unhealthy", "--mode unhealthy --on-interrupt rollback", []string{"--on-interrupt rollback is for mode refresh"}},
		{"following with --no-wait", "--no-wait --until drained --timeout 1h --stall-timeout 1h --on-interrupt cancel --fail-fast", []string{
			"--until has no effect with --no-wait: leave one of them out", "--timeout has no effect", "--stall-timeout has", "--on-interrupt has", "--fail-fast has",
		}},
		{"two values of one tag", "--tag role=worker --tag role=infra", []string{"--tag sets two values for one key"}},
		{"--all and --instance", "--mode unhealthy --all --instance i-0a", []string{"--instance and --all exclude each other"}},
		{"node labels without Kubernetes", "--mode unhealthy --exclude-node-label pet --no-kubernetes", []string{"--exclude-node-label needs Kubernetes"}},
		{"taints without Kubernetes", "--taint-outdated soft --no-kubernetes", []string{"--taint-outdated needs Kubernetes: leave it or --no-kubernetes out"}},
		{"ready nodes without Kubernetes", "--ready-timeout 10m --no-kubernetes", []string{"--ready-timeout needs Kubernetes: leave it or --no-kubernetes out"}},
		{"ready nodes without following", "--ready-timeout 10m --no-wait", []string{"--ready-timeout has no effect with --no-wait"}},
		{"an unknown phase", "--together check,replace", []string{`--together is "replace": must be none, check, taint or surge`}},
		{"a gate that takes longer than a checkpoint", "--gate-command true --checkpoints 50 --checkpoint-delay 5m", []string{"--gate-timeout is 5m0s and --checkpoint-delay 5m0s"}},
		{"a gate that leaves no time to pause", "--gate-command true --checkpoints 50 --checkpoint-delay 5m --gate-timeout 4m51s", []string{"--gate-timeout is 4m51s and --checkpoint-delay 5m0s: AWS continues after the delay, so that the gate has at most 4m50s"}},
		{"a gate that takes an hour at a checkpoint", "--gate-command true --checkpoints 50 --gate-timeout 1h", []string{"--gate-timeout is 1h0m0s and --checkpoint-delay 1h0m0s"}},
		{"a gate that is not waited for", "--gate-command true --gate-url http://a --no-wait", []string{"--gate-command has no effect with --no-wait", "--gate-url has no effect"}},
		{"a gate that is no URL", "--gate-url ftp://host", []string{"--gate-url is invalid: must be a URL"}},
		{"steps without a surge", "--mode unhealthy --surge-step 2", []string{"--surge-step needs --surge"}},
		{"a surge together in mode refresh", "--together surge", []string{"--together surge is for mode unhealthy"}},
		{"NoExecute", "--taint-outdated NoExecute", []string{`--taint-outdated is "NoExecute": must be none, soft or hard`}},
		{"context without Kubernetes", "--no-kubernetes --context prod", []string{"--context and --no-kubernetes exclude each other: leave one of them out"}},
		{"what a watch would replace in each round", "watch --checkpoints 10,50", []string{
			"--checkpoints must end with 100",
		}},
		{"all instances in each round", "watch --all", []string{"--all would replace the same instances in each round"}},
		{"the same instances in each round", "watch --mode unhealthy --instance i-0a", []string{"--instance would replace the same"}},
		{"what a watch would hold between two windows", "watch --window 22:00-05:00 --suspend AlarmNotification", []string{
			"--window leaves a rollout between two windows as it is",
		}},
		{"a Lease without Kubernetes", "watch --lease watch --no-kubernetes", []string{"--lease needs Kubernetes: leave it"}},
		{"a watch that does not end", "watch --no-wait -o json --summary-file s.md", []string{
			"--no-wait has no effect on trigger watch", "--output json is one document", "--summary-file has no effect",
		}},
		{"external id without a role", "--external-id team-7", []string{"--external-id needs --role-arn, for example --role-arn ARN"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expectErrors(t, nil, forWorkers(tt.args), tt.want)
		})
	}
	t.Run("variables are named if they are set", func(t *testing.T) {
		t.Parallel()
		expectErrors(t, []string{"TRIGGER_BATCH=2", "TRIGGER_CHECKPOINT_DELAY=1m"}, "--asg workers", []string{
			"TRIGGER_BATCH is for mode unhealthy or standby only", "TRIGGER_CHECKPOINT_DELAY needs --checkpoints",
		})
	})
}

// TestVariables: an unknown variable with the prefix of the trigger is an error.
func TestVariables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, variable, want string
	}{
		{"one letter too many", "TRIGGER_ASGS", ": did you mean TRIGGER_ASG?"},
		{"one letter missing", "TRIGGER_MAX_HEALTY", ": did you mean TRIGGER_MAX_HEALTHY?"},
		{"prefix of several", "TRIGGER_CHECKPOINT", ": did you mean TRIGGER_CHECKPOINTS or TRIGGER_CHECKPOINT_DELAY?"},
		{"resembles none", "TRIGGER_HAPPY", ": trigger --help-all lists them"},
		{"host of a Service", "TRIGGER_SERVICE_HOST", ""},
		{"port of a Service", "TRIGGER_SERVICE_PORT", ""},
		{"named port of a Service", "TRIGGER_SERVICE_PORT_HTTP", ""},
		{"Docker-style port of a Service", "TRIGGER_PORT", ""},
		{"part of a Docker-style port", "TRIGGER_PORT_8080_TCP_ADDR", ""},
		{"Service whose name has the prefix", "TRIGGER_HOOKS_SERVICE_HOST", ""},
		{"set by GitLab", "TRIGGER_PAYLOAD", ""},
		{"another prefix", "MY_TRIGGER_ASG", ""},
		{"option of another command", "TRIGGER_MODE", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, stderr := read(t, []string{tt.variable + "=1"}, "status", "--asg", "workers")
			want := ""
			if tt.want != "" {
				want = "\n  unknown variable " + tt.variable + tt.want + "\n"
			}
			if !strings.HasSuffix(stderr, want) || want == "" && stderr != "" {
				t.Errorf("error %q, want %q", stderr, want)
			}
		})
	}
}

// TestOptions: each option is unique, and its help is a sentence.
func TestOptions(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, o := range newProgram(nil, nil, nil).executor.settings.options {
		if slices.Contains(seen, o.name) {
			t.Errorf("%s is duplicate", o.flag())
		}
		seen = append(seen, o.name)
		if o.help == "" || !strings.HasSuffix(o.text(), ".") {
			t.Errorf("%s: the help is not a sentence: %q", o.flag(), o.text())
		}
		if strings.ContainsAny(o.text()+o.initial, "|`") {
			t.Errorf("%s: the help would break a table: %q", o.flag(), o.text())
		}
	}
}

// TestDefaults: setting a flag to the default in its help changes nothing.
func TestDefaults(t *testing.T) {
	t.Parallel()
	plain, _, _ := read(t, nil, "--asg", "workers")
	watching := watchOptions(newSettings())
	for _, o := range newProgram(nil, nil, nil).executor.settings.options {
		if o.initial == "" || slices.Contains([]string{"batch", "order", "then"}, o.name) { // not of mode refresh
			continue
		}
		args := []string{"--asg", "workers", o.flag() + "=" + o.initial}
		if slices.ContainsFunc(watching, func(w *option) bool { return w.name == o.name }) {
			args = append([]string{"watch"}, args...)
		}
		s, _, stderr := read(t, nil, args...)
		if s == nil {
			t.Errorf("%s: %s", o.flag(), stderr)
			continue
		}
		if diff := cmp.Diff(plain.config(), s.config()); diff != "" {
			t.Errorf("%s=%s changes:\n%s", o.flag(), o.initial, diff)
		}
	}
}
