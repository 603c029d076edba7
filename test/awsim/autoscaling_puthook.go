package awsim

import "time"

// putLifecycleHook leaves what a hook that exists has and the request does not name, as AWS does.
func (a hookAPI) putLifecycleHook(r *reader) (any, error) {
	h := Hook{Name: r.must("LifecycleHookName")}
	name := r.must("AutoScalingGroupName")
	if r.err != nil {
		return nil, r.err
	}
	_, err := r.viewGroup(a.engine, func(g *group) (any, error) {
		if i := g.hook(h.Name); i >= 0 {
			h = g.hooks[i]
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	h.Transition = r.oneOf("LifecycleTransition", h.Transition, Launching, Terminating)
	h.DefaultResult = r.oneOf("DefaultResult", h.DefaultResult, resume, abandon)
	if r.has("HeartbeatTimeout") {
		h.HeartbeatTimeout, h.GlobalTimeout = time.Duration(r.number("HeartbeatTimeout", 0, 30, 7200))*time.Second, 0
	}
	if r.has("NotificationTargetARN") {
		h.NotificationTargetARN = r.text("NotificationTargetARN")
	}
	if r.has("RoleARN") {
		h.RoleARN = r.text("RoleARN")
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := a.server.PutHook(name, h); err != nil {
		return nil, errorf("ValidationError", "Unable to publish test message to notification target %s using IAM role %s. "+
			"Please check your target and role configuration and try to put lifecycle hook again.",
			h.NotificationTargetARN, h.RoleARN)
	}
	return struct{}{}, nil
}
