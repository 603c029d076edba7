package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// newAWS returns a simulated AWS with the group workers, whose only instance is outdated. The SDK of this
// process uses it.
func newAWS(t *testing.T) *awsim.Server {
	t.Helper()
	must := func(err error) {
		if t.Helper(); err != nil {
			t.Fatal(err)
		}
	}
	aws, err := awsim.New(awsim.Options{})
	must(err)
	t.Cleanup(func() { must(aws.Close()) })
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": aws.URL(), "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	_, err = aws.CreateLaunchTemplate("node", "ami-1")
	must(err)
	must(aws.CreateGroup(awsim.Group{
		Name: "workers", Desired: 1, Max: 4, LaunchTemplate: "node", LaunchTemplateVersion: "$Latest",
	}))
	must(aws.WaitInstances(t.Context(), "workers", func(now []awsim.Instance) bool {
		return slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State == "InService" })
	}))
	_, err = aws.AddTemplateVersion("node", "ami-2")
	must(err)
	return aws
}

// TestCommandsAgainstAWS runs each command, one after the other, on a simulated group.
func TestCommandsAgainstAWS(t *testing.T) {
	aws := newAWS(t)
	environ := []string{
		"TRIGGER_ASG=workers", "TRIGGER_NO_KUBERNETES=true", "TRIGGER_POLL_INTERVAL=100ms",
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"plan --detailed-exitcode", 2, "1 of 1 instances is outdated"},
		{"status", 0, "workers"},
		{"--plan -o json", 0, `"outdated": 1`},
		{"", 1, "no-terminating-hook"},
		{"--allow no-terminating-hook", 0, "1 instance replaced"},
		{"status -o text", 0, "Successful"},
		{"cancel", 0, "no instance refresh is under way"},
		{"pause", 0, "the process InstanceRefresh is suspended"},
		{"resume", 0, "the process InstanceRefresh is resumed"},
		{"--mode unhealthy --all --allow no-terminating-hook,maintenance-policy", 0, "1 instance replaced"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(tt.args), environ, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.want) {
			t.Errorf("trigger %s: exit code %d, want %d; output lacks %q:\n%s%s", tt.args, code, tt.code, tt.want, &stdout, &stderr)
		}
	}
	if instances := aws.Instances("workers"); len(instances) != 1 || instances[0].Version != 2 {
		t.Errorf("the group has %+v", instances)
	}
}
