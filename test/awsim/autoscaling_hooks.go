package awsim

import (
	"strings"
	"time"
)

// readHook reads a lifecycle hook over what it was before, or over nothing.
func readHook(r *reader, prefix string, h Hook) Hook {
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

func (a hookAPI) putLifecycleHook(r *reader) (any, error) {
	groupName, name := r.text("AutoScalingGroupName"), r.must("LifecycleHookName")
	var before Hook
	_, err := r.viewGroup(a.engine, func(g *group) (any, error) {
		if i := g.hook(name); i >= 0 {
			before = g.hooks[i]
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	h := readHook(r, "", before).withDefaults()
	if r.err != nil {
		return nil, r.err
	}
	return struct{}{}, a.lifecycle.putHook(groupName, h)
}

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
	names := r.members("LifecycleHookNames")
	return r.viewGroup(a.engine, func(g *group) (any, error) {
		var out struct {
			LifecycleHooks []hookXML `xml:"LifecycleHooks>member"`
		}
		for _, h := range g.hooks {
			if len(names) == 0 || contains(names, h.Name) {
				out.LifecycleHooks = append(out.LifecycleHooks, h.wire(g.name))
			}
		}
		return out, nil
	})
}

func (h Hook) wire(group string) hookXML {
	return hookXML{
		LifecycleHookName:     h.Name,
		AutoScalingGroupName:  group,
		LifecycleTransition:   h.Transition,
		NotificationTargetARN: h.NotificationTargetARN,
		RoleARN:               h.RoleARN,
		NotificationMetadata:  h.NotificationMetadata,
		HeartbeatTimeout:      seconds(h.HeartbeatTimeout),
		GlobalTimeout:         seconds(h.GlobalTimeout),
		DefaultResult:         h.DefaultResult,
	}
}

// seconds rounds up, so that a timeout of a fraction of a second is not shown as 0.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func (a hookAPI) describeLifecycleHookTypes(*reader) (any, error) {
	return struct {
		LifecycleHookTypes []string `xml:"LifecycleHookTypes>member"`
	}{[]string{Launching, Terminating}}, nil
}

// named reads what names a lifecycle action: group, hook, and a token or an instance.
func (a hookAPI) named(r *reader) (groupName, hookName, token, instanceID string, err error) {
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

func (a hookAPI) recordLifecycleActionHeartbeat(r *reader) (any, error) {
	groupName, hookName, token, instanceID, err := a.named(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.lifecycle.heartbeat(groupName, hookName, token, instanceID)
}

func (a hookAPI) completeLifecycleAction(r *reader) (any, error) {
	result := r.must("LifecycleActionResult")
	if r.err == nil && result != resume && result != abandon {
		r.fail(errorf("ValidationError", "The specified lifecycle action result %s is not valid: it must be "+
			"one of CONTINUE, ABANDON", result))
	}
	groupName, hookName, token, instanceID, err := a.named(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, a.lifecycle.complete(groupName, hookName, token, instanceID, result)
}
