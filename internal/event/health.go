package event

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The values of an AWS Health event that matter (AWS Health user guide, "Reference: AWS Health events Amazon
// EventBridge schema").
const (
	healthEvent     = "AWS Health Event"
	scheduledChange = "scheduledChange"
	statusClosed    = "closed"
	entityResolved  = "RESOLVED"
)

// fromHealth reads an event of source aws.health: one for each instance that a scheduled change of EC2
// affects. A change of other resources, for example dedicated hosts, is a Notice.
func fromHealth(detailType string, detail *fields, e Event) ([]Event, error) {
	scheduled := detail.text("service") == "EC2" && detail.text("eventTypeCategory") == scheduledChange
	// In the management account of an organization, region is that of the copy, and this that of the instances.
	e.Region = cmp.Or(detail.text("eventRegion"), e.Region)
	if detail.err != nil {
		return nil, detail.err
	}
	if detailType != healthEvent || !scheduled {
		return []Event{e}, nil
	}
	e.Code = detail.text("eventTypeCode")
	return changes(detail, e)
}

// changes returns the scheduled change, once for each instance; e if there is none.
func changes(detail *fields, e Event) ([]Event, error) {
	change, ended, none := e, e, e
	change.Kind, ended.Kind, none.Code = ScheduledChange, ScheduledChangeCanceled, ""
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
			next = ended
		}
		next.InstanceID = entity.id
		events = append(events, next)
	}
	if len(events) == 0 {
		return []Event{none}, nil
	}
	return events, nil
}

// startTime reads the only time that is not in ISO 8601: "Sat, 05 Jun 2027 15:20:37 GMT". It rejects other
// names of zones, because time.Parse treats an abbreviation that it does not know as UTC.
func startTime(detail *fields) time.Time {
	start := detail.instant("startTime",
		"Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 -0700", time.RFC3339)
	if !detail.has("startTime") {
		detail.fail("startTime", "is empty")
	}
	return start
}

// entity is one instance that a Health event affects. In the schema it has no time of its own, only a status.
// Of its values (IMPAIRED, UNIMPAIRED, UNKNOWN, PENDING, RESOLVED) only RESOLVED means that the change has
// ended for this instance: an unimpaired one may still have its maintenance ahead.
type entity struct {
	id       string
	resolved bool
}

// affected returns the instances among a Health event's entities, each once, up to MaxInstances. One that is listed
// twice is resolved only if both entries are.
func affected(detail *fields) []entity {
	var list []json.RawMessage
	if detail.has("affectedEntities") && json.Unmarshal(detail.raw["affectedEntities"], &list) != nil {
		detail.fail("affectedEntities", "is not a list")
	}
	var out []entity
	index := make(map[string]int)
	for _, raw := range list {
		one, err := readEntity(raw)
		if err != nil {
			detail.err = err
			return nil
		}
		if one.id == "" {
			continue
		}
		if i, seen := index[one.id]; seen {
			out[i].resolved = out[i].resolved && one.resolved
			continue
		}
		if len(out) == MaxInstances {
			detail.err = fmt.Errorf("%w: more than %d instances", ErrTooLarge, MaxInstances)
			return nil
		}
		index[one.id] = len(out)
		out = append(out, one)
	}
	return out
}

// readEntity returns an entity without an id if the resource is not an instance.
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
