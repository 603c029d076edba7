package awsim

import "time"

func (a hookAPI) deleteLifecycleHook(r *reader) (any, error) {
	name := r.must("LifecycleHookName")
	return struct{}{}, r.changeGroup(a.engine, func(g *group) error {
		i := g.hook(name)
		if i < 0 {
			return errNoHook(name)
		}
		a.capacity.deleteHook(g, i)
		return nil
	})
}

func errNoHook(name string) *Error {
	return errorf("ValidationError", "No Lifecycle Hook found with name: %s", name)
}

type hookXML struct {
	LifecycleHookName     string
	AutoScalingGroupName  string
	LifecycleTransition   string
	NotificationTargetARN string `xml:",omitempty"`
	RoleARN               string `xml:",omitempty"`
	NotificationMetadata  string `xml:",omitempty"`
	HeartbeatTimeout      int
	GlobalTimeout         int
	DefaultResult         string
}

func (a hookAPI) describeLifecycleHooks(r *reader) (any, error) {
	return r.viewGroup(a.engine, func(g *group) (any, error) {
		var out struct {
			LifecycleHooks []hookXML `xml:"LifecycleHooks>member"`
		}
		for _, h := range g.hooks {
			out.LifecycleHooks = append(out.LifecycleHooks, hookXML{
				LifecycleHookName:     h.Name,
				AutoScalingGroupName:  g.name,
				LifecycleTransition:   h.Transition,
				NotificationTargetARN: h.NotificationTargetARN,
				RoleARN:               h.RoleARN,
				NotificationMetadata:  h.NotificationMetadata,
				HeartbeatTimeout:      seconds(h.HeartbeatTimeout),
				GlobalTimeout:         seconds(h.GlobalTimeout),
				DefaultResult:         h.DefaultResult,
			})
		}
		return out, nil
	})
}

// seconds rounds up, so that a timeout of a fraction of a second is not shown as 0.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// named reads what names a lifecycle action: group, hook, and a token or an instance.
func (a hookAPI) named(r *reader) (actionName, error) {
	name := actionName{
		group: r.text("AutoScalingGroupName"), hook: r.must("LifecycleHookName"),
		token: r.text("LifecycleActionToken"), instanceID: r.text("InstanceId"),
	}
	if name.token == "" && name.instanceID == "" {
		r.fail(errorf("ValidationError", "You must specify either a LifecycleActionToken or an InstanceId."))
	}
	_, err := r.viewGroup(a.engine, func(g *group) (any, error) {
		if g.hook(name.hook) < 0 {
			return nil, errNoHook(name.hook)
		}
		return nil, nil
	})
	return name, err
}

func (a hookAPI) recordLifecycleActionHeartbeat(r *reader) (any, error) {
	name, err := a.named(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.lifecycle.heartbeat(name)
}

func (a hookAPI) completeLifecycleAction(r *reader) (any, error) {
	r.must("LifecycleActionResult")
	result := r.oneOf("LifecycleActionResult", "", resume, abandon)
	name, err := a.named(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.lifecycle.complete(name, result)
}
