package event

import (
	"encoding/json"
	"strings"
	"time"
)

// The words of an AWS Health event that we read (AWS Health user guide, "Reference: AWS Health events Amazon
// EventBridge schema").
const (
	healthEvent     = "AWS Health Event"
	scheduledChange = "scheduledChange"
	statusClosed    = "closed"
	entityResolved  = "RESOLVED"
)

// fromHealth reads an event of source aws.health: one for each instance that a scheduled change of EC2
// affects. A change of things that are no instances (dedicated hosts, say) is a Notice.
func fromHealth(detailType string, detail *fields, e Event) ([]Event, error) {
	scheduled := detail.text("service") == "EC2" && detail.text("eventTypeCategory") == scheduledChange
	if detail.err != nil {
		return nil, detail.err
	}
	if detailType != healthEvent || !scheduled {
		return []Event{e}, nil
	}
	e.Code = detail.text("eventTypeCode")
	return changes(detail, e)
}

// changes is the scheduled change that e is to become, once for each instance.
func changes(detail *fields, e Event) ([]Event, error) {
	change, over, none := e, e, e
	change.Kind, over.Kind, none.Code = ScheduledChange, ScheduledChangeCanceled, ""
	closed := detail.text("statusCode") == statusClosed
	if !closed {
		change.Deadline = startTime(detail)
	}
	entities := affected(detail)
	if detail.err != nil {
		return nil, detail.err
	}
	var events []Event
	for _, entity := range entities {
		next := change
		if closed || entity.resolved {
			next = over
		}
		next.InstanceID = entity.id
		events = append(events, next)
	}
	if len(events) == 0 {
		return []Event{none}, nil
	}
	return events, nil
}

// startTime reads the one time in all this that is not ISO 8601: "Sat, 05 Jun 2027 15:20:37 GMT". Another
// zone's name is refused, as time.Parse would take an abbreviation that it does not know for UTC.
func startTime(detail *fields) time.Time {
	start := detail.instant("startTime",
		"Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 -0700", time.RFC3339)
	if !detail.has("startTime") {
		detail.fail("startTime", "is empty")
	}
	return start
}

// entity is one instance that a Health event affects. The schema knows no window of its own for it, only a
// status. Of its values (IMPAIRED, UNIMPAIRED, UNKNOWN, PENDING, RESOLVED) only RESOLVED says that the change
// is over for this one: an instance may be unimpaired because its maintenance is still to come.
type entity struct {
	id       string
	resolved bool
}

// affected returns the instances among a Health event's entities, each once: where one is told of twice and
// one entry is not resolved, it is not.
func affected(detail *fields) []entity {
	var list []json.RawMessage
	if detail.has("affectedEntities") && json.Unmarshal(detail.raw["affectedEntities"], &list) != nil {
		detail.fail("affectedEntities", "is not a list")
	}
	var out []entity
	place := make(map[string]int)
	for _, raw := range list {
		one, err := readEntity(raw)
		if err != nil {
			detail.err = err
			return nil
		}
		if one.id == "" {
			continue
		}
		if i, seen := place[one.id]; seen {
			out[i].resolved = out[i].resolved && one.resolved
			continue
		}
		place[one.id] = len(out)
		out = append(out, one)
	}
	return out
}

// readEntity returns an entity without an id for what is no instance.
func readEntity(raw json.RawMessage) (entity, error) {
	f, err := open(raw, "affectedEntities")
	if err != nil {
		return entity{}, malformed("affectedEntities", "has an entry that is not a JSON object")
	}
	var out entity
	if strings.HasPrefix(f.name("entityValue"), "i-") {
		out.id = f.instance("entityValue")
		out.resolved = f.text("status") == entityResolved
	}
	return out, f.err
}
