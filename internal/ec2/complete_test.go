package ec2

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

func TestHTTPComplete(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	createVersions(t, s, client, group, "ami-1")
	must(t, s.CreateGroup(awsim.Group{Name: group, Max: 10, LaunchTemplate: group}))
	must(t, s.AddInstance(group, onDemand, ""))
	groups := []refresh.Group{
		{Instances: []refresh.Instance{{ID: onDemand, ImageID: "ami-replaced"}, {ID: unknown}}},
		{Instances: []refresh.Instance{{ID: onDemand}}},
	}
	must(t, NewLaunchReader(client).Complete(bounded(t), groups))
	replaced, missing, plain := groups[0].Instances[0], groups[0].Instances[1], groups[1].Instances[0]
	if replaced.ImageID != "ami-replaced" || time.Since(replaced.Launched) > time.Hour {
		t.Errorf("an instance with a replaced root volume is %+v", replaced)
	}
	if missing.ImageID != "" || !missing.Launched.IsZero() {
		t.Errorf("an instance that EC2 does not know is %+v", missing)
	}
	if plain.ImageID != "ami-1" || plain.Launched.IsZero() {
		t.Errorf("an instance is %+v", plain)
	}
	s.Inject(awsim.Fault{Service: "ec2", Code: "RequestLimitExceeded", Status: 503})
	if err := NewLaunchReader(client).Complete(bounded(t), groups); err == nil {
		t.Error("a call that failed returns no error")
	}
}
