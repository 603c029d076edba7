package event_test

import (
	"fmt"

	"github.com/node-drainer/node-drainer/internal/event"
)

func ExampleParse() {
	events, err := event.Parse([]byte(`{
		"Service": "AWS Auto Scaling",
		"Time": "2027-03-01T10:00:00.123Z",
		"AutoScalingGroupName": "workers",
		"LifecycleHookName": "drain",
		"EC2InstanceId": "i-0a1b2c3d4e5f60718",
		"LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"
	}`))
	if err != nil {
		fmt.Println(event.Reason(err))
		return
	}
	for _, e := range events {
		fmt.Println(e.Kind, e.InstanceID, "waits for hook", e.Hook.Name, "of", e.Hook.Group)
	}
	// Output: lifecycle-terminating i-0a1b2c3d4e5f60718 waits for hook drain of workers
}

func ExampleReason() {
	_, err := event.Parse([]byte(`{"Records": []}`))
	fmt.Println(event.Reason(err))
	// Output: unknown-source
}
