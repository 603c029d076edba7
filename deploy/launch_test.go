package deploy_test

import "testing"

// TestLaunchDefaultResult: while no agent runs, instances are launched as if there were no hook. AWS limits the launches
// of a group whose hooks abandon them, and may suspend the group after a day.
func TestLaunchDefaultResult(t *testing.T) {
	t.Parallel()
	got := map[string]any{
		"CloudFormation": loadTemplate(t, "cloudformation/hooks.yaml").Parameters["LaunchDefaultResult"]["Default"],
	}
	for _, b := range loadModule(t, "terraform").all("variable") {
		if b.Labels[0] == "launch_default_result" {
			got["Terraform"] = source(t, b.Body.Attributes["default"])
		}
	}
	if got["CloudFormation"] != "CONTINUE" || got["Terraform"] != `"CONTINUE"` {
		t.Errorf("the result of a launch by default: %v", got)
	}
}
