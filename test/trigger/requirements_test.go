package trigger

import (
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestInstanceRequirements: AWS takes neither skip matching nor a desired configuration for a group that names its
// types by attributes. The preflight says so, and with --all the trigger sends neither.
func TestInstanceRequirements(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1", "$Latest"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, awsim.Group{
				Desired: 2, LaunchTemplateVersion: version, Overrides: []awsim.Override{{InstanceRequirements: true}},
			})
			if version == "$Latest" { // The other group has nothing that is outdated.
				a.trigger().waitExit(1, `nothing was changed: skip-matching: skip matching does not work with instance requirements`)
			}
			a.trigger("--all", "--surge", "100%").waitExit(0, `2 instances replaced`)
		})
	}
}
