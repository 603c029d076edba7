package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/config"
)

const queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"

// environ returns the required variables, and more.
func environ(more ...string) []string {
	return append([]string{"CLUSTER_NAME=demo", "QUEUE_URL=" + queueURL, "POD_NAMESPACE=agents"}, more...)
}

// TestReadAgent: each case differs from the configuration of the required variables alone as wanted.
func TestReadAgent(t *testing.T) {
	t.Parallel()
	emptied, explicit := environ("UNRELATED=x"), environ()
	for _, v := range config.Variables() {
		if !v.Required && v.Name != "POD_NAMESPACE" {
			emptied = append(emptied, v.Name+"=")
			explicit = append(explicit, v.Name+"="+v.Default)
		}
	}
	for _, tt := range []struct {
		name    string
		environ []string
		want    func(c *config.Agent)
	}{
		{"the required variables", environ(), func(c *config.Agent) {
			c.ClusterName, c.PodNamespace, c.Queue.URL = "demo", "agents", queueURL
		}},
		{"an empty variable counts as unset", emptied, func(*config.Agent) {}},
		{
			"variables that Kubernetes sets for Services, and others of other programs",
			environ("QUEUE_PORT=tcp://10.0.0.1:80", "QUEUE_SERVICE_HOST=10.0.0.1", "DRAIN_API_PORT_80_TCP_ADDR=10.0.0.2",
				"EVENT_SERVICE_PORT_HTTP=80", "NODE_OPTIONS=--trace", "LOG_DIR=/tmp", "TZ=UTC"),
			func(*config.Agent) {},
		},
		{"the default of each variable", explicit, func(*config.Agent) {}},
		{
			"every kind of value is read",
			environ("DRAIN_TIMEOUT=90m", "NODE_CORDON=false", "QUEUE_MAX_IN_FLIGHT=7", "LOG_FORMAT=console", "LISTEN_ADDRESS=[::1]:0"),
			func(c *config.Agent) {
				c.Drain.Timeout, c.Node.Cordon, c.Queue.MaxInFlight = 90*time.Minute, false, 7
				c.Log.Format, c.ListenAddress = "console", "[::1]:0"
			},
		},
		{
			"a list with spaces, line breaks and an extra comma",
			environ("HOOK_NAMES= drain, ready,\nthird ,"),
			func(c *config.Agent) { c.Hook.Names = []string{"drain", "ready", "third"} },
		},
		{"an empty list", environ("HOOK_NAMES= ,"), func(c *config.Agent) { c.Hook.Names = []string{} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want, err := config.ReadAgent(environ())
			if err != nil {
				t.Fatal(err)
			}
			tt.want(&want)
			if got, err := config.ReadAgent(tt.environ); err != nil || !cmp.Equal(want, got) {
				t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
			}
		})
	}
}

// TestMistake: an error names the variable, its value, and the form that it should have.
func TestMistake(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ set, want string }{
		{"CLUSTER_NAME=", "CLUSTER_NAME is required. Name of this cluster"},
		{"QUEUE_URL=", "QUEUE_URL is required. URL of the SQS queue"},
		{"QUEUE_URL=node-drainer", `QUEUE_URL is "node-drainer": must be the URL of a queue, for example https://`},
		{"QUEUE_VISIBILITY_TIMEOUT=60", `QUEUE_VISIBILITY_TIMEOUT is "60": must be a duration with a unit, for example 90s, 15m or 2h`},
		{"QUEUE_VISIBILITY_TIMEOUT=13h", "QUEUE_VISIBILITY_TIMEOUT is 13h0m0s: must be from 3s to 12h"},
		{"QUEUE_MAX_IN_FLIGHT=many", `QUEUE_MAX_IN_FLIGHT is "many": must be a whole number`},
		{"QUEUE_MAX_IN_FLIGHT=1.5", `QUEUE_MAX_IN_FLIGHT is "1.5": must be a whole number`},
		{"QUEUE_MAX_IN_FLIGHT=3000000000", "QUEUE_MAX_IN_FLIGHT is \"3000000000\": must be a whole number"},
		{
			"QUEUE_MAX_IN_FLIGHT=0",
			"QUEUE_MAX_IN_FLIGHT is 0: must be from 1 to 120000, the most in-flight messages that SQS allows for a queue",
		},
		{"QUEUE_MAX_IN_FLIGHT=120001", "QUEUE_MAX_IN_FLIGHT is 120001: must be from 1 to 120000"},
		{"DRAIN_MAX_CONCURRENT=0", `DRAIN_MAX_CONCURRENT is "0": must be a number, for example 2, or a share, for example 20%`},
		{"DRAIN_MAX_CONCURRENT_PER_ZONE=110%", `DRAIN_MAX_CONCURRENT_PER_ZONE is "110%": must be a number`},
		{"HOOK_HEARTBEAT_INTERVAL=soon", `HOOK_HEARTBEAT_INTERVAL is "soon": must be a duration with a unit`},
		{"HOOK_HEARTBEAT_INTERVAL=3h", "HOOK_HEARTBEAT_INTERVAL is 3h0m0s: must be 0s, or from 1s to 2h"},
		{"HOOK_CONFIRM_TIMEOUT=0s", "HOOK_CONFIRM_TIMEOUT is 0s: must be from 1s to 10m"},
		{"HOOK_MARGIN=-1s", "HOOK_MARGIN is -1s: must be from 0s to 1h"},
		{"HOOK_NAMES=drain,a:b", `HOOK_NAMES is "drain,a:b": "a:b" is not the name of a lifecycle hook: must be 1 to 255`},
		{"NODE_TAINT_KEY=a b", `NODE_TAINT_KEY is "a b": `},
		{"NODE_TAINT_EFFECT=Sometimes", `NODE_TAINT_EFFECT is "Sometimes": must be NoSchedule, PreferNoSchedule or NoExecute`},
		{"NODE_CORDON=yes", `NODE_CORDON is "yes": must be true or false`},
		{"NODE_EXCLUDE_FROM_LOAD_BALANCERS=on", `NODE_EXCLUDE_FROM_LOAD_BALANCERS is "on": must be early, late or off`},
		{"NODE_REGISTRATION_TIMEOUT=2h", "NODE_REGISTRATION_TIMEOUT is 2h0m0s: must be from 0s to 1h"},
		{"DRAIN_TIMEOUT=100h", "DRAIN_TIMEOUT is 100h0m0s: must be from 1s to 48h, the longest that a hook can hold"},
		{"DRAIN_AT_DEADLINE=retry", `DRAIN_AT_DEADLINE is "retry": must be delete or leave`},
		{"DRAIN_BARE_PODS=delete", `DRAIN_BARE_PODS is "delete": must be evict or wait`},
		{"DRAIN_EMPTYDIR_PODS=WAIT", `DRAIN_EMPTYDIR_PODS is "WAIT": must be evict or wait`},
		{"DRAIN_FORCE_SPACING=2h", "DRAIN_FORCE_SPACING is 2h0m0s: must be from 0s to 1h"},
		{"DRAIN_FORCE_UNHEALTHY_AFTER=-1ns", "DRAIN_FORCE_UNHEALTHY_AFTER is -1ns: must be from 0s to 48h"},
		{"DRAIN_STUCK_AFTER=49h", "DRAIN_STUCK_AFTER is 49h0m0s: must be from 0s to 48h"},
		{"DRAIN_SETTLE=61s", "DRAIN_SETTLE is 1m1s: must be from 0s to 1m"},
		{"DRAIN_LOAD_BALANCER_WAIT=-1s", "DRAIN_LOAD_BALANCER_WAIT is -1s: must be from 0s to 1h"},
		{"DRAIN_VOLUME_TIMEOUT=90m", "DRAIN_VOLUME_TIMEOUT is 1h30m0s: must be from 0s to 1h"},
		{"DRAIN_BLOCKED_AFTER=-1h", "DRAIN_BLOCKED_AFTER is -1h0m0s: must be from 0s to 1h"},
		{"LAUNCH_TIMEOUT=100h", "LAUNCH_TIMEOUT is 100h0m0s: must be from 1s to 48h, the longest that a hook can hold"},
		{"LAUNCH_AT_TIMEOUT=retry", `LAUNCH_AT_TIMEOUT is "retry": must be abandon or continue`},
		{"LAUNCH_DAEMONSETS=some", `LAUNCH_DAEMONSETS is "some": must be true or false`},
		{"LAUNCH_STARTUP_TAINTS=a=b", `LAUNCH_STARTUP_TAINTS is "a=b": "a=b" is not a valid taint key: `},
		{"QUEUE_RECEIVERS=0", "QUEUE_RECEIVERS is 0: must be from 1 to 100"},
		{"QUEUE_RECEIVERS=101", "QUEUE_RECEIVERS is 101: must be from 1 to 100"},
		{"POD_NAMESPACE=", "LEADER_NAMESPACE is required where POD_NAMESPACE is not set: set one of them to the namespace"},
		{"LEADER_ELECTION=perhaps", `LEADER_ELECTION is "perhaps": must be true or false`},
		{"LEADER_NAMESPACE=a/b", `LEADER_NAMESPACE is "a/b": `},
		{"LEADER_LEASE_NAME=A B", `LEADER_LEASE_NAME is "A B": `},
		{"LEADER_LEASE_DURATION=15500ms", "LEADER_LEASE_DURATION is 15.5s: must be whole seconds, from 1s to 5m0s"},
		{"LEADER_RENEW_DEADLINE=15s", "LEADER_RENEW_DEADLINE is 15s: must be more than 1.2s"},
		{"LEADER_RETRY_PERIOD=9s", "LEADER_RENEW_DEADLINE is 10s: must be more than 10.8s"},
		{"NOTIFY_URL=hooks.slack.com/T0/secret", "NOTIFY_URL is invalid: must be https://HOST/PATH or http://HOST/PATH"},
		{"NOTIFY_HEADERS=Authorization: secret", "NOTIFY_HEADERS is invalid: must be a JSON object of texts"},
		{
			`NOTIFY_TEMPLATE={"text": {{json .Message}}}`,
			"NOTIFY_TEMPLATE is invalid: template: NOTIFY_TEMPLATE:1:16: executing",
		},
		{"DRAIN_TIMOUT=5m", "DRAIN_TIMOUT is unknown: did you mean DRAIN_TIMEOUT?"},
		{"DRAIN_REPORT=yes", "DRAIN_REPORT is unknown"}, // not what Kubernetes sets for a Service
		{"HOOK_NAME=drain", "HOOK_NAME is unknown: did you mean HOOK_NAMES?"},
		{"DRYRUN=true", "DRYRUN is unknown: did you mean DRY_RUN?"},
		{"NODE_SELECTR=a=b", "NODE_SELECTR is unknown: did you mean NODE_SELECTOR?"},
		{"LOG_LEVL=debug", "LOG_LEVL is unknown: did you mean LOG_LEVEL?"},
		{"NOTIFY_WHEN=drained,stopped", `NOTIFY_WHEN is "drained,stopped": must be a list of started, drained and failed`},
		{"NOTIFY_TIMEOUT=2m", "NOTIFY_TIMEOUT is 2m0s: must be from 1s to 1m"},
		{"LOG_LEVEL=loud", `LOG_LEVEL is "loud": must be debug, info, warn or error`},
		{"LOG_FORMAT=xml", `LOG_FORMAT is "xml": must be json or console`},
		{"AUTOSCALER_DEPLOYMENT=autoscaler", `AUTOSCALER_DEPLOYMENT is "autoscaler": must be NAMESPACE/NAME`},
		{"LISTEN_ADDRESS=8080", `LISTEN_ADDRESS is "8080": must be HOST:PORT or :PORT`},
		{"LISTEN_ADDRESS=:http-alt-9", `LISTEN_ADDRESS is ":http-alt-9": must be HOST:PORT or :PORT`},
		{"RESYNC_INTERVAL=1ms", "RESYNC_INTERVAL is 1ms: must be from 1s to 1h"},
		{"EVENT_SPOT_INTERRUPTION=evict", `EVENT_SPOT_INTERRUPTION is "evict": must be drain, cordon or ignore`},
		{"EVENT_REBALANCE_RECOMMENDATION=evict", `EVENT_REBALANCE_RECOMMENDATION is "evict": must be drain, cordon, replace or ignore`},
		{"EVENT_CAPACITY_RESERVATION_INTERRUPTION=replace", `EVENT_CAPACITY_RESERVATION_INTERRUPTION is "replace": must be drain, cordon or ignore`},
		{"EVENT_CAPACITY_BLOCK_EXPIRATION=replace", `EVENT_CAPACITY_BLOCK_EXPIRATION is "replace": must be drain, cordon or ignore`},
		{"EVENT_SCHEDULED_CHANGE=evict", `EVENT_SCHEDULED_CHANGE is "evict": must be drain, cordon, replace or ignore`},
		{"EVENT_STATE_CHANGE=replace", `EVENT_STATE_CHANGE is "replace": must be drain, cordon or ignore`},
		{"EVENT_MARGIN=2m", "EVENT_MARGIN is 2m0s: must be from 0s to 1m"},
		{"LISTEN_ADDRESS=:99999", `LISTEN_ADDRESS is ":99999": must be HOST:PORT or :PORT`},
	} {
		t.Run(tt.set, func(t *testing.T) {
			t.Parallel()
			c, err := config.ReadAgent(environ(tt.set))
			var mistakes config.Mistakes
			if !errors.As(err, &mistakes) || len(mistakes) != 1 || !strings.HasPrefix(mistakes[0].Error(), tt.want) {
				t.Errorf("the mistakes are %v, want one: %s", err, tt.want)
			}
			if !reflect.DeepEqual(c, config.Agent{}) {
				t.Errorf("a configuration with a mistake was returned: %+v", c)
			}
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

// TestOtherVariables: variables that other programs use are no mistakes.
func TestOtherVariables(t *testing.T) {
	t.Parallel()
	names := "HOME HOSTNAME LANG LOGNAME NODE_ENV NODE_IP NODE_OPTIONS NODE_PATH PATH POD_IP POD_UID PWD SHELL TERM USER " +
		"CLUSTER_ID CLUSTER_DNS LOG_DIR LOG_FILE NODE_PORT DRAIN_SERVICE_HOST QUEUE_PORT KUBERNETES_SERVICE_HOST"
	for name := range strings.FieldsSeq(names) {
		if _, err := config.ReadAgent(environ(name + "=x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLimits: each variable may have the values at its bounds, and none beyond them.
func TestLimits(t *testing.T) {
	t.Parallel()
	limited := 0
	for _, v := range config.Variables() {
		if v.Min == "" && v.Max == "" {
			continue
		}
		limited++
		least, most := inUnits(t, v, v.Min), inUnits(t, v, v.Max)
		for n, allowed := range map[int64]bool{least - 1: false, least: true, most: true, most + 1: false} {
			set := v.Name + "=" + strconv.FormatInt(n, 10)
			if v.Type.Kind() != reflect.Int {
				set += "ns"
			}
			if _, err := config.ReadAgent(environ(set)); (err == nil) != allowed {
				t.Errorf("%s: got %v, allowed: %v", set, err, allowed)
			}
		}
	}
	if limited != 22 {
		t.Errorf("%d variables have limits", limited)
	}
}

// inUnits returns a bound in nanoseconds, or as it is for an int.
func inUnits(t *testing.T, v config.Variable, bound string) int64 {
	t.Helper()
	if v.Type.Kind() == reflect.Int {
		bound += "ns"
	}
	d, err := time.ParseDuration(bound)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	return int64(d)
}

// TestMistakes: missing, unparsable and invalid values are reported together, each once.
func TestMistakes(t *testing.T) {
	t.Parallel()
	_, err := config.ReadAgent([]string{
		"LISTEN_ADDRESS=here", "QUEUE_MAX_IN_FLIGHT=many", "HOOK_CONFIRM_TIMEOUT=1h", "HOOK_MARGIN=x", "NODE_CORDON=maybe",
		"NODE_TAINT_EFFECT=Sometimes", "DRAIN_TIMEOUT=soon", "DRAIN_SETTLE=2m", "LOG_LEVEL=loud", "LOG_FORMAT=xml",
	})
	if err == nil {
		t.Fatal("no mistakes")
	}
	lines := strings.Split(err.Error(), "\n")
	var names []string
	for _, line := range lines[1:] {
		names = append(names, strings.Fields(line)[0])
	}
	want := []string{
		"CLUSTER_NAME", "LISTEN_ADDRESS", "QUEUE_URL", "QUEUE_MAX_IN_FLIGHT", "HOOK_CONFIRM_TIMEOUT", "HOOK_MARGIN",
		"NODE_TAINT_EFFECT", "NODE_CORDON", "DRAIN_TIMEOUT", "DRAIN_SETTLE", "LEADER_NAMESPACE", "LOG_LEVEL", "LOG_FORMAT",
	}
	if diff := cmp.Diff(sorted(want), sorted(names)); diff != "" {
		t.Errorf("the variables with mistakes (-want +got):\n%s", diff)
	}
	if !strings.Contains(lines[0], "agent --help") {
		t.Errorf("the error does not mention --help: %s", lines[0])
	}
}
