//go:build e2e

package chart_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/chart"
)

// TestRefusals: what is wrong with values is said before anything is installed, with the path of the value.
func TestRefusals(t *testing.T) {
	t.Parallel()
	cronJob := "trigger.enabled=true,trigger.cronJobs.x.schedule=@daily,trigger.cronJobs.x.options."
	for _, tt := range []struct {
		name, set string
		want      []string
	}{
		{"nothing is set", "", []string{
			"config.clusterName is required: the name of this cluster, as the tags",
			"config.queue.url is required: the URL of the SQS queue, such as https://",
			"image.registry is required: the registry of the image, such as registry.example.com",
		}},
		{"an image of no registry", least + ",image.registry=", []string{"image.registry is required"}},
		{"a value that there is not", least + ",config.drain.atDeadlin=leave", []string{
			"at '/config/drain': additional properties 'atDeadlin' not allowed",
		}},
		{"a value beside config", least + ",drain.timeout=1h", []string{"additional properties 'drain' not allowed"}},
		{"another word", least + ",config.drain.atDeadline=weep", []string{
			"at '/config/drain/atDeadline': value must be one of 'delete', 'leave'",
		}},
		{"a duration without a unit", least + ",config.drain.timeout=90", []string{
			"at '/config/drain/timeout': got number, want string",
		}},
		{"no duration", least + ",config.drain.timeout=soon", []string{"at '/config/drain/timeout': 'soon' does not match pattern"}},
		{"no number", least + ",config.queue.receivers=many", []string{"at '/config/queue/receivers': got string, want integer"}},
		{"no ARN", least + ",serviceAccount.roleARN=node-drainer", []string{"at '/serviceAccount/roleARN': 'node-drainer' does not match pattern"}},
		{"no key for the URL", least + ",notify.existingSecret.key=", []string{"at '/notify/existingSecret/key': minLength"}},
		{"no digest", least + ",image.digest=latest", []string{"at '/image/digest': 'latest' does not match pattern"}},
		{"replicas that all work", least + ",config.leader.election=false", []string{
			"config.leader.election is false, and replicas is more than 1: all replicas would do the same work",
		}},
		{"a toleration of everything", least + ",tolerations[0].operator=Exists", []string{
			"tolerations[0] has no key, so it tolerates every taint, including that of terminating nodes: set a key",
		}},
		{"a toleration of our taint", least + ",tolerations[0].key=node-drainer.io/terminating", []string{
			"tolerations[0] tolerates config.node.taintKey",
		}},
		{"a ServiceAccount that nobody names", least + ",serviceAccount.create=false", []string{
			"serviceAccount.create is false: set serviceAccount.name to an existing ServiceAccount",
		}},
		{"a role for a ServiceAccount of others", least + ",serviceAccount.create=false,serviceAccount.name=x," +
			"serviceAccount.roleARN=arn:aws:iam::123456789012:role/x", []string{
			"serviceAccount.create is false: roleARN and annotations apply only to a ServiceAccount that the chart creates",
		}},
		{"the same for the trigger", least + ",trigger.enabled=true,trigger.tolerations[0].operator=Exists", []string{
			"trigger.tolerations[0] has no key",
		}},
		{"two programs on one port of a node", least + ",hostNetwork=true,watch.enabled=true,watch.options.cluster=prod", []string{
			"hostNetwork is true, and config.listenAddress and watch.listenAddress have the same port",
		}},
		{"another DNS policy", least + ",dnsPolicy=First", []string{"at '/dnsPolicy': value must be one of '', 'ClusterFirst'"}},
		{"another IP family", least + ",service.ipFamilies[0]=IPv5", []string{
			"at '/service/ipFamilies/0': value must be one of 'IPv4', 'IPv6'",
		}},
		{"variables from nowhere", least + ",extraEnvFrom[0].name=x", []string{
			"at '/extraEnvFrom/0': additional properties 'name' not allowed",
		}},
		{"no alert", least + ",metrics.prometheusRule.disabled[0]=NodeDrainerAbsend", []string{
			"metrics.prometheusRule.disabled: unknown alert NodeDrainerAbsend; the alerts are NodeDrainerAbsent, ",
		}},
		{"a flag that there is not", least + "," + cronJob + "asgs=workers", []string{
			"at '/trigger/cronJobs/x/options': additional properties 'asgs' not allowed",
		}},
		{"a rollout of nothing", least + "," + cronJob + "mode=refresh", []string{
			"trigger.cronJobs.x.options selects no groups: set asg, cluster or tag",
		}},
		{"drains by request without the right to", least + "," + cronJob + "cluster=prod," + cronJob + "mode=standby," + cronJob + "then=stop", []string{
			"trigger.cronJobs.x.options.then requires trigger.taintNodes: true",
		}},
		{"taints without the right to", least + "," + cronJob + "cluster=prod," + cronJob + "taintOutdated=soft", []string{
			"trigger.cronJobs.x.options.taintOutdated requires trigger.taintNodes: true",
		}},
		{"a watch of nothing", least + ",watch.enabled=true", []string{"watch.options selects no groups: set asg, cluster or tag"}},
		{"a watch of nothing, with options", least + ",watch.enabled=true,watch.options.surge=1", []string{"watch.options selects no groups"}},
		{"a flag of the watch that the chart sets", least + ",watch.enabled=true,watch.options.lease=x", []string{
			"at '/watch/options': additional properties 'lease' not allowed",
		}},
		{"a window is no option of a CronJob", least + "," + cronJob + "window[0]=22:00-05:00", []string{
			"at '/trigger/cronJobs/x/options': additional properties 'window' not allowed",
		}},
		{"taints by a watch without the right to", least + ",watch.enabled=true,watch.options.cluster=prod,watch.options.taintOutdated=hard", []string{
			"watch.options.taintOutdated requires watch.taintNodes: true",
		}},
		{"a watch that drains without the right to", least + ",watch.enabled=true,watch.options.cluster=prod,watch.options.mode=standby,watch.options.then=stop", []string{
			"watch.options.then requires watch.taintNodes: true",
		}},
		{"a watch that pauses another autoscaler", least + ",watch.enabled=true,watch.options.cluster=prod,watch.options.pauseAutoscaler=kube-system/ca", []string{
			"watch.options.pauseAutoscaler requires the same config.autoscalerDeployment",
		}},
		{"a toleration of everything for the watch", least + ",watch.tolerations[0].operator=Exists", []string{"watch.tolerations[0] has no key"}},
		{
			"a CronJob's name that is too long",
			least + "," + strings.ReplaceAll(cronJob, ".x.", ".replace-old-nodes-of-batch.") + "cluster=prod",
			[]string{
				"trigger.cronJobs.replace-old-nodes-of-batch: the name must consist of at most 20 lower-case letters, digits and hyphens",
			},
		},
		{"a CronJob without a schedule", least + ",trigger.cronJobs.x.options.cluster=prod", []string{
			"at '/trigger/cronJobs/x': missing property 'schedule'",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := chart.Render(t.Context(), "node-drainer", "agents", "--set", tt.set)
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it is not said that %q:\n%v", want, err)
				}
			}
		})
	}
}

// TestTheOldestKubernetes: an older one than the chart is made for is refused.
func TestTheOldestKubernetes(t *testing.T) {
	t.Parallel()
	_, err := chart.Render(t.Context(), "node-drainer", "agents", "--set", least, "--kube-version", "1.29.0")
	if err == nil || !strings.Contains(err.Error(), "requires kubeVersion: >=1.30.0-0") {
		t.Errorf("it is said: %v", err)
	}
}

// TestEachValueIsUsed: to change a value, whichever it is, changes what the chart makes.
func TestEachValueIsUsed(t *testing.T) {
	t.Parallel()
	full := setups(t)["full"]
	values, set := readYAML(t, filepath.Join(ours(t), "values.yaml")), readYAML(t, full)
	delete(values["serviceAccount"].(map[string]any), "create") // TestAnAccountOfOthers
	delete(values["trigger"].(map[string]any)["serviceAccount"].(map[string]any), "create")
	delete(values["watch"].(map[string]any)["serviceAccount"].(map[string]any), "create")
	delete(values, "config") // TestEachValueIsItsVariable
	expectUsed(t, values, set, ours(t), "--values", full)
}

// expectUsed expects that to change one of the values of a chart, some of which the flags set to others, changes what it
// makes with the flags.
func expectUsed(t *testing.T, values, set map[string]any, path string, flags ...string) {
	t.Helper()
	draw := func(t *testing.T, more ...string) []byte {
		args := slices.Concat([]string{"template", "x", path, "--skip-schema-validation"}, flags, more)
		out, err := chart.Helm(t.Context(), nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		return []byte(out)
	}
	before := draw(t)
	for _, at := range leaves(values, nil) {
		t.Run(strings.Join(at, "."), func(t *testing.T) {
			t.Parallel()
			value, overridden := lookup(set, at)
			if !overridden {
				value, _ = lookup(values, at)
			}
			other := changed(value)
			for _, key := range slices.Backward(at) {
				other = map[string]any{key: other}
			}
			if bytes.Equal(before, draw(t, "--values", write(t, other.(map[string]any)))) {
				t.Errorf("%v or not, the chart makes the same", value)
			}
		})
	}
}

// TestAnAccountOfOthers: it is used, and not made.
func TestAnAccountOfOthers(t *testing.T) {
	t.Parallel()
	objects := render(t, "--set", least+",trigger.enabled=true,trigger.cronJobs.x.schedule=@daily,"+
		"trigger.cronJobs.x.options.cluster=prod,serviceAccount.create=false,serviceAccount.name=drains,"+
		"trigger.serviceAccount.create=false,trigger.serviceAccount.name=rolls,"+
		"watch.enabled=true,watch.options.cluster=prod,watch.serviceAccount.create=false,watch.serviceAccount.name=watches")
	text, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"kind":"ServiceAccount","metadata"`) {
		t.Error("a ServiceAccount is made")
	}
	for _, name := range []string{"drains", "rolls", "watches"} {
		subject := `{"kind":"ServiceAccount","name":"` + name + `","namespace":"agents"}`
		if !strings.Contains(string(text), subject) || !strings.Contains(string(text), `"serviceAccountName":"`+name+`"`) {
			t.Errorf("%s is not used: %s", name, text)
		}
	}
}

// changed returns another value of the type.
func changed(value any) any {
	switch v := value.(type) {
	case bool:
		return !v
	case float64:
		return v + 1
	case map[string]any:
		if _, cronJobs := v["outdated"]; cronJobs {
			return map[string]any{"outdated": map[string]any{"schedule": "other"}}
		}
		return map[string]any{"other": "x"}
	case []any:
		if len(v) > 0 {
			return []any{}
		}
		return []any{map[string]any{"name": "other"}}
	}
	return "other"
}
