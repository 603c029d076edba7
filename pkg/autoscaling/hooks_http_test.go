package autoscaling

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// recorded is the ledger's entry of the hook's action.
func recorded(t *testing.T, s *awsim.Server, hook string) awsim.Action {
	t.Helper()
	for _, a := range s.Ledger() {
		if a.Hook == hook {
			return a
		}
	}
	t.Fatalf("the ledger knows no action of %s", hook)
	return awsim.Action{}
}

func named(a awsim.Action) Action {
	return Action{
		Group: a.Group, Hook: a.Hook, InstanceID: a.InstanceID, Token: a.Token, Launch: a.Transition == awsim.Launching,
	}
}

func TestHTTPHoldAndComplete(t *testing.T) {
	t.Parallel()
	s, h, w := simulateHooks(t, awsim.Hook{Name: "drain", HeartbeatTimeout: 3 * time.Second, GlobalTimeout: time.Minute})
	h.cfg.HeartbeatInterval = 300 * time.Millisecond
	a := named(recorded(t, s, "drain"))
	must(t, h.Hold(bounded(t), a, waits(3200*time.Millisecond)))
	got := recorded(t, s, "drain")
	if beats := len(got.Heartbeats); !got.ClosedAt.IsZero() || beats < 2 || w.beats > beats || w.beats < beats-1 {
		t.Fatalf("after more than its timeout, the action is %+v; %d beats told of", got, w.beats)
	}
	must(t, h.Complete(bounded(t), a, Continue))
	got = recorded(t, s, "drain")
	if got.ClosedBy != awsim.ByCompletion || got.Result != "CONTINUE" || got.HeartbeatsAfterClose > 0 {
		t.Errorf("the action is %+v", got)
	}
	must(t, h.Complete(bounded(t), a, Continue)) // again, as after a restart
	state, err := h.State(bounded(t), instanceID)
	if err != nil || !state.Gone() && !state.Unknown() {
		t.Errorf("the instance is %q, %v", state, err)
	}
}

func TestHTTPDescriptions(t *testing.T) {
	t.Parallel()
	s, h, _ := simulateHooks(t, awsim.Hook{Name: "drain", HeartbeatTimeout: time.Minute})
	a := named(recorded(t, s, "drain"))
	if got, err := h.Timing(bounded(t), a); err != nil || got != (Timing{time.Minute, 100 * time.Minute}) {
		t.Errorf("timing %v, %v", got, err)
	}
	if got, err := h.Clusters(bounded(t), groupName); err != nil || fmt.Sprint(got) != "[blue]" {
		t.Errorf("clusters %v, %v", got, err)
	}
	if got, err := h.State(bounded(t), instanceID); err != nil || got != "Terminating:Wait" {
		t.Errorf("state %q, %v", got, err)
	}
	if got, err := h.State(bounded(t), "i-00000000000000000"); err != nil || !got.Unknown() {
		t.Errorf("state of an unknown instance %q, %v", got, err)
	}
	a.Hook = "other"
	if _, err := h.Timing(bounded(t), a); !errors.Is(err, ErrGone) {
		t.Errorf("timing of an unknown hook: %v", err)
	}
}

// TestHTTPErrorTexts: what the SDK makes of Auto Scaling's refusals is what the decisions stand on.
func TestHTTPErrorTexts(t *testing.T) {
	t.Parallel()
	s, h, _ := simulateHooks(t, awsim.Hook{Name: "drain"})
	a := named(recorded(t, s, "drain"))
	stray, byInstance, noHook, noGroup := a, a, a, a
	stray.Token = token
	byInstance.Token, byInstance.InstanceID = "", "i-00000000000000000"
	noHook.Hook = "other"
	noGroup.Group = "other"
	for _, tt := range []struct {
		name      string
		action    Action
		notActive bool
	}{
		{"an unknown token", stray, true},
		{"an unknown instance", byInstance, true},
		{"an unknown hook", noHook, false},
		{"an unknown group", noGroup, false},
	} {
		for call, err := range map[string]error{
			"heartbeat":  h.heartbeat(bounded(t), tt.action),
			"completion": h.complete(bounded(t), tt.action, Continue),
		} {
			if !isValidation(err) || isNotActive(err) != tt.notActive {
				t.Errorf("%s: %s: %v", tt.name, call, err)
			}
		}
	}
	s.Inject(awsim.Fault{Action: "RecordLifecycleActionHeartbeat", Status: 500, Code: "InternalFailure"})
	if err := h.heartbeat(bounded(t), a); err == nil || isValidation(err) {
		t.Errorf("an outage gives %v", err)
	}
}

func TestHTTPTimedOutActionIsGone(t *testing.T) {
	t.Parallel()
	s, h, _ := simulateHooks(t, awsim.Hook{Name: "drain", HeartbeatTimeout: 30 * time.Second, GlobalTimeout: 2 * time.Second})
	h.cfg.HeartbeatInterval = 200 * time.Millisecond
	h.cfg.ConfirmTimeout = time.Second // until an instance that no group knows any more counts as gone
	err := h.Hold(bounded(t), named(recorded(t, s, "drain")), waits(time.Minute))
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "No active Lifecycle Action found") {
		t.Errorf("got %v", err)
	}
	if got := recorded(t, s, "drain"); got.ClosedBy != awsim.ByGlobalTimeout {
		t.Errorf("the action is %+v", got)
	}
}

func TestHTTPTakenButAnsweredWithAnError(t *testing.T) {
	t.Parallel()
	s, h, w := simulateHooks(t, awsim.Hook{Name: "drain"})
	s.Inject(awsim.Fault{Action: "CompleteLifecycleAction", AfterApply: true, Status: 400, Code: "Throttling", Times: 1})
	must(t, h.Complete(bounded(t), named(recorded(t, s, "drain")), Continue))
	if got := recorded(t, s, "drain"); got.ClosedBy != awsim.ByCompletion || len(got.Completions) != 2 {
		t.Errorf("the action is %+v; failures %v", got, w.fails)
	}
}

func TestHTTPFailuresThenSuccess(t *testing.T) {
	t.Parallel()
	s, h, _ := simulateHooks(t, awsim.Hook{Name: "drain"})
	s.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Drop: true, Times: 2})
	must(t, h.Complete(bounded(t), named(recorded(t, s, "drain")), Continue))
	if got := recorded(t, s, "drain"); got.ClosedBy != awsim.ByCompletion || got.Result != "CONTINUE" {
		t.Errorf("the action is %+v", got)
	}
}

func TestHTTPStaleTokenIsReplacedByTheInstance(t *testing.T) {
	t.Parallel()
	s, h, _ := simulateHooks(t, awsim.Hook{Name: "drain"})
	a := named(recorded(t, s, "drain"))
	a.Token = token
	must(t, h.Complete(bounded(t), a, Continue))
	got := recorded(t, s, "drain")
	if got.ClosedBy != awsim.ByCompletion || got.Completions[len(got.Completions)-1].By != "instance" {
		t.Errorf("the action is %+v", got)
	}
}

func TestHTTPOtherHookGoesOn(t *testing.T) {
	t.Parallel()
	s, h, _ := simulateHooks(t, awsim.Hook{Name: "drain"}, awsim.Hook{Name: "other"})
	a := named(recorded(t, s, "drain"))
	must(t, h.Complete(bounded(t), a, Continue))
	if got := recorded(t, s, "other"); !got.ClosedAt.IsZero() {
		t.Errorf("the other hook's action is %+v", got)
	}
	if !h.hasSiblings(bounded(t), a) {
		t.Error("the group's other hook is overlooked")
	}
}
