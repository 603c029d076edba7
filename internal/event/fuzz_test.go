package event_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/node-drainer/node-drainer/internal/event"
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
			if what := violation(e); what != "" {
				t.Fatalf("%s: %+v", what, e)
			}
		}
		checkWrapped(t, body, events)
	})
}

// shapes are the names of the message shapes in testdata.
func shapes(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
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

// violation returns what is wrong with an event: some fields belong to some kinds only.
func violation(e event.Event) string {
	is := func(kinds ...event.Kind) bool { return slices.Contains(kinds, e.Kind) }
	hooked := is(event.LifecycleTerminating, event.LifecycleLaunching)
	block := is(event.CapacityBlockExpiration)
	quiet := block || is(event.TestNotification, event.Notice)
	timed := block || is(event.SpotInterruption, event.ScheduledChange, event.CapacityReservationInterruption)
	switch {
	case !is(event.Kinds()...) || !labelShape.MatchString(string(e.Kind)):
		return "the kind is not listed, or no label"
	case quiet && e.InstanceID != "" || !quiet && !instanceShape.MatchString(e.InstanceID):
		return "the instance"
	case !block && e.ReservationID != "" || block && !reservationShape.MatchString(e.ReservationID):
		return "the reservation"
	case hooked && (e.Hook.Group == "" || e.Hook.Name == "") || !hooked && e.Hook != (event.Hook{}):
		return "the hook"
	case !hooked && e.Action != "":
		return "the action"
	case !timed && !e.Deadline.IsZero() || is(event.SpotInterruption) && e.Deadline.Sub(e.At) != event.SpotNotice:
		return "the deadline"
	case is(event.StateChange, event.SpotInterruption, event.CapacityReservationInterruption) != (e.State != ""):
		return "the state"
	case e.Code != "" && !is(event.ScheduledChange, event.ScheduledChangeCanceled):
		return "the code"
	}
	return ""
}

// checkWrapped: the body in an SNS envelope gives the same events, unless that is too large or has too many
// envelopes.
func checkWrapped(t *testing.T, body []byte, events []event.Event) {
	t.Helper()
	wrapped := sns(t, body)
	if decode[map[string]json.RawMessage](t, body)["TopicArn"] != nil || len(wrapped) > event.MaxBody {
		return
	}
	again, err := event.Parse(wrapped)
	if err != nil || !reflect.DeepEqual(again, events) {
		t.Fatalf("in an SNS envelope: %v\n got %+v\nwant %+v", err, again, events)
	}
}
