//go:build e2e

package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/chart"
)

// TestOfAnotherChart: another chart has this one as a dependency, and decides by a condition whether to install it.
func TestOfAnotherChart(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(parent, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	version := readYAML(t, filepath.Join(ours(t), "Chart.yaml"))["version"].(string)
	write("Chart.yaml", "apiVersion: v2\nname: platform\nversion: 1.0.0\ndependencies:\n"+
		"  - {name: node-drainer, version: "+version+", condition: node-drainer.enabled}\n")
	if err := os.CopyFS(filepath.Join(parent, "charts", "node-drainer"), os.DirFS(ours(t))); err != nil {
		t.Fatal(err)
	}
	values := ""
	for value := range strings.SplitSeq(least, ",") {
		values += ",node-drainer." + value
	}
	for enabled, want := range map[string]bool{"true": true, "false": false} {
		out, err := chart.Helm(t.Context(), nil, "template", "x", parent, "--set", "node-drainer.enabled="+enabled+values)
		if err != nil || strings.Contains(out, "kind: Deployment") != want {
			t.Errorf("enabled is %s: %v\n%s", enabled, err, out)
		}
	}
}

// TestOneAccountForBoth: trigger and watch may have the ServiceAccount that the one role in AWS trusts.
func TestOneAccountForBoth(t *testing.T) {
	t.Parallel()
	accounts := map[string]int{}
	for _, o := range render(t, "--set", least+",trigger.enabled=true,trigger.cronJobs.x.schedule=@daily,"+
		"trigger.cronJobs.x.options.cluster=prod,trigger.serviceAccount.name=rollouts,"+
		"watch.enabled=true,watch.options.cluster=prod,watch.serviceAccount.name=rollouts") {
		if o.GetKind() == "ServiceAccount" {
			accounts[o.GetName()]++
		}
	}
	if accounts["rollouts"] != 1 || len(accounts) != 2 {
		t.Errorf("the ServiceAccounts are %v", accounts)
	}
}
