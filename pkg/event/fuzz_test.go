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

// FuzzParse checks what Parse promises for any bytes. Its corpus is testdata/fuzz/FuzzParse and the shapes
// in testdata, each also in an SNS envelope.
func FuzzParse(f *testing.F) {
	for _, shape := range shapes(f) {
		f.Add(read(f, shape))
		f.Add(sns(f, read(f, shape)))
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

// shapes are the names of the message shapes in testdata.
func shapes(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

var (
	instanceShape    = regexp.MustCompile(`^i-[0-9a-f]{8,17}\z`)
	reservationShape = regexp.MustCompile(`^cr-[0-9a-f]{8,17}\z`)
	labelShape       = regexp.MustCompile(`^[a-z-]+\z`)
)

func checkEvent(t *testing.T, e event.Event) {
	t.Helper()
	if !slices.Contains(event.Kinds(), e.Kind) || !labelShape.MatchString(string(e.Kind)) {
		t.Fatalf("the kind %q is not listed, or no label", e.Kind)
	}
	block := e.Kind == event.CapacityBlockExpiration
	quiet := e.Kind == event.TestNotification || e.Kind == event.Notice || block
	if quiet && e.InstanceID != "" || !quiet && !instanceShape.MatchString(e.InstanceID) {
		t.Fatalf("%s has the instance %q", e.Kind, e.InstanceID)
	}
	if !block && e.ReservationID != "" || block && !reservationShape.MatchString(e.ReservationID) {
		t.Fatalf("%s has the reservation %q", e.Kind, e.ReservationID)
	}
	checkHook(t, e)
	checkDeadline(t, e)
	checkWords(t, e)
}

// checkWords: only some kinds have a state or a code.
func checkWords(t *testing.T, e event.Event) {
	t.Helper()
	stated := []event.Kind{event.StateChange, event.SpotInterruption, event.CapacityReservationInterruption}
	if slices.Contains(stated, e.Kind) != (e.State != "") {
		t.Fatalf("%s has the state %q", e.Kind, e.State)
	}
	coded := []event.Kind{event.ScheduledChange, event.ScheduledChangeCanceled}
	if e.Code != "" && !slices.Contains(coded, e.Kind) {
		t.Fatalf("%s has the code %q", e.Kind, e.Code)
	}
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
	timed := []event.Kind{
		event.SpotInterruption, event.ScheduledChange,
		event.CapacityReservationInterruption, event.CapacityBlockExpiration,
	}
	if !slices.Contains(timed, e.Kind) && !e.Deadline.IsZero() {
		t.Fatalf("%s has the deadline %v", e.Kind, e.Deadline)
	}
	if e.Kind == event.SpotInterruption && e.Deadline.Sub(e.At) != event.SpotNotice {
		t.Fatalf("a Spot interruption at %v has the deadline %v", e.At, e.Deadline)
	}
}

// checkWrapped: the body in an SNS envelope gives the same events, unless that is too large or has too many
// envelopes.
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
