package event_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/node-drainer/node-drainer/pkg/event"
)

// FuzzParse holds what Parse promises for any bytes. Its corpus is testdata/fuzz/FuzzParse and the shapes
// in testdata, each also in an SNS envelope.
func FuzzParse(f *testing.F) {
	shapes, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, shape := range shapes {
		if shape.IsDir() {
			continue
		}
		f.Add(read(f, shape.Name()))
		f.Add(sns(f, read(f, shape.Name())))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := event.Parse(body)
		if err != nil {
			if events != nil || !slices.Contains(event.Reasons(), event.Reason(err)) {
				t.Fatalf("got %v beside %v of reason %q", events, err, event.Reason(err))
			}
			return
		}
		if len(events) == 0 {
			t.Fatal("neither events nor an error")
		}
		for _, e := range events {
			checkEvent(t, e)
		}
		checkWrapped(t, body, events)
	})
}

func checkEvent(t *testing.T, e event.Event) {
	t.Helper()
	quiet := e.Kind == event.TestNotification || e.Kind == event.Notice
	named := regexp.MustCompile(`^i-[0-9a-f]{8,17}\z`).MatchString(e.InstanceID)
	if quiet == named || quiet && e.InstanceID != "" {
		t.Fatalf("%s has the instance %q", e.Kind, e.InstanceID)
	}
	checkHook(t, e)
	checkDeadline(t, e)
}

func checkHook(t *testing.T, e event.Event) {
	t.Helper()
	hooked := e.Kind == event.LifecycleTerminating || e.Kind == event.LifecycleLaunching
	if hooked && (e.Hook.Group == "" || e.Hook.Name == "") || !hooked && e.Hook != (event.Hook{}) {
		t.Fatalf("%s has the hook %+v", e.Kind, e.Hook)
	}
}

func checkDeadline(t *testing.T, e event.Event) {
	t.Helper()
	timed := e.Kind == event.SpotInterruption || e.Kind == event.ScheduledChange
	if !timed && !e.Deadline.IsZero() {
		t.Fatalf("%s has the deadline %v", e.Kind, e.Deadline)
	}
	if e.Kind == event.SpotInterruption && e.Deadline.Sub(e.At) != event.SpotNotice {
		t.Fatalf("a Spot interruption at %v has the deadline %v", e.At, e.Deadline)
	}
}

// checkWrapped asks for the same events from the body in an SNS envelope, unless that is too large or one
// envelope too many.
func checkWrapped(t *testing.T, body []byte, events []event.Event) {
	t.Helper()
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(body, &outer); err != nil {
		t.Fatalf("accepted what is not JSON: %v", err)
	}
	wrapped := sns(t, body)
	if outer["TopicArn"] != nil || len(wrapped) > event.MaxBody {
		return
	}
	again, err := event.Parse(wrapped)
	if err != nil || !reflect.DeepEqual(again, events) {
		t.Fatalf("in an SNS envelope: %v\n got %+v\nwant %+v", err, again, events)
	}
}
