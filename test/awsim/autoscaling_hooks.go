package awsim

import (
	"strings"
	"time"
)

// hook reads a lifecycle hook over what it was before, or over nothing.
func (r *reader) hook(prefix string, h Hook) Hook {
	h.Name = r.must(prefix + "LifecycleHookName")
	h.Transition = r.oneOf(prefix+"LifecycleTransition", h.Transition, Launching, Terminating)
	if h.Transition == "" {
		r.fail(errNull(lowerFirst(prefix + "LifecycleTransition")))
	}
	if r.has(prefix + "HeartbeatTimeout") {
		h.HeartbeatTimeout = time.Second * time.Duration(r.number(prefix+"HeartbeatTimeout", 0, 30, 7200))
		h.GlobalTimeout = 0
	}
	h.DefaultResult = r.oneOf(prefix+"DefaultResult", h.DefaultResult, resume, abandon)
	for key, field := range map[string]*string{
		"NotificationTargetARN": &h.NotificationTargetARN,
		"RoleARN":               &h.RoleARN,
		"NotificationMetadata":  &h.NotificationMetadata,
	} {
		if r.has(prefix + key) {
			*field = r.text(prefix + key)
		}
	}
	return h
}

func (a *autoscaling) putLifecycleHook(r *reader) (any, error) {
	groupName, name := r.must("AutoScalingGroupName"), r.must("LifecycleHookName")
	if r.err != nil {
		return nil, r.err
	}
	var before Hook
	a.mu.Lock()
	g, err := a.group(groupName)
	if err == nil {
		if i := g.hook(name); i >= 0 {
			before = g.hooks[i]
		}
	}
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	h := r.hook("", before).withDefaults()
	if r.err != nil {
		return nil, r.err
	}
	return struct{}{}, a.putHook(groupName, h)
}

func (a *autoscaling) deleteLifecycleHook(r *reader) (any, error) {
	groupName, name := r.must("AutoScalingGroupName"), r.must("LifecycleHookName")
	if r.err != nil {
		return nil, r.err
	}
	return struct{}{}, a.updateErr(func() error {
		g, err := a.group(groupName)
		if err != nil {
			return err
		}
		i := g.hook(name)
		if i < 0 {
			return errNoHook(name)
		}
		a.dropHook(g, i)
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

func (a *autoscaling) describeLifecycleHooks(r *reader) (any, error) {
	groupName, names := r.must("AutoScalingGroupName"), r.members("LifecycleHookNames")
	if r.err != nil {
		return nil, r.err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g, err := a.group(groupName)
	if err != nil {
		return nil, err
	}
	var out struct {
		LifecycleHooks []hookXML `xml:"LifecycleHooks>member"`
	}
	for _, h := range g.hooks {
		if len(names) > 0 && !contains(names, h.Name) {
			continue
		}
		out.LifecycleHooks = append(out.LifecycleHooks, hookXML{
			LifecycleHookName:     h.Name,
			AutoScalingGroupName:  groupName,
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
}

// seconds rounds up: a hook of a fraction of a second must not be told as one without a timeout.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func (a *autoscaling) describeLifecycleHookTypes(*reader) (any, error) {
	return struct {
		LifecycleHookTypes []string `xml:"LifecycleHookTypes>member"`
	}{[]string{Launching, Terminating}}, nil
}

// named reads what names a lifecycle action: group, hook, and a token or an instance.
func (a *autoscaling) named(r *reader) (groupName, hookName, token, instanceID string, err error) {
	groupName, hookName = r.must("AutoScalingGroupName"), r.must("LifecycleHookName")
	token, instanceID = r.text("LifecycleActionToken"), r.text("InstanceId")
	switch {
	case token == "" && instanceID == "":
		r.fail(errorf("ValidationError", "You must specify either a LifecycleActionToken or an InstanceId."))
	case token != "" && len(token) != 36:
		r.fail(errConstraint("LifecycleActionToken", token, "Member must have length equal to 36"))
	case token == "" && !strings.HasPrefix(instanceID, "i-"):
		r.fail(errorf("ValidationError", "Invalid instance ID: %s", instanceID))
	}
	if r.err != nil {
		return "", "", "", "", r.err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g, err := a.group(groupName)
	if err == nil && g.hook(hookName) < 0 {
		err = errNoHook(hookName)
	}
	return groupName, hookName, token, instanceID, err
}

func (a *autoscaling) recordLifecycleActionHeartbeat(r *reader) (any, error) {
	groupName, hookName, token, instanceID, err := a.named(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.heartbeat(groupName, hookName, token, instanceID)
}

func (a *autoscaling) completeLifecycleAction(r *reader) (any, error) {
	result := r.must("LifecycleActionResult")
	if r.err == nil && result != resume && result != abandon {
		r.fail(errorf("ValidationError", "The specified lifecycle action result %s is not valid: it must be "+
			"one of CONTINUE, ABANDON", result))
	}
	groupName, hookName, token, instanceID, err := a.named(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.complete(groupName, hookName, token, instanceID, result)
}
