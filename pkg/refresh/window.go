package refresh

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is a time of the week in which rollouts may begin, by the clocks of a time zone.
type Window struct {
	first, last time.Weekday // On these days it begins; last may be before first in the week.
	from, to    int          // In minutes of the day. If to is not after from, it ends on the next day.
	zone        *time.Location
	text        string
}

// windowPattern is "[DAY[-DAY] ]HH:MM-HH:MM[ ZONE]".
var windowPattern = regexp.MustCompile(
	`^(?:([A-Za-z]{3})(?:-([A-Za-z]{3}))? )?([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})(?: (\S+))?$`)

const (
	minutesOfDay = 24 * 60
	daysOfWeek   = 7
)

// ParseWindow reads a window: the days on which it begins, which are all if they are left out, its first minute and the
// minute after its last one, and the time zone, by default UTC: "Mon-Fri 22:00-05:00 Europe/Berlin".
func ParseWindow(text string) (Window, error) {
	parts := windowPattern.FindStringSubmatch(strings.Join(strings.Fields(text), " "))
	if parts == nil {
		return Window{}, errors.New("a window such as \"Mon-Fri 22:00-05:00 Europe/Berlin\"")
	}
	first, errFirst := parseDay(cmp.Or(parts[1], "Sun"))
	last, errLast := parseDay(cmp.Or(parts[2], parts[1], "Sat"))
	if err := cmp.Or(errFirst, errLast); err != nil {
		return Window{}, err
	}
	w := Window{first: first, last: last, text: parts[0]}
	w.from, w.to = minutes(parts[3], parts[4]), minutes(parts[5], parts[6])
	if w.from >= minutesOfDay || w.to > minutesOfDay || w.to == w.from {
		return Window{}, errors.New("a window from 00:00 to 24:00 that does not begin when it ends")
	}
	return w, w.load(parts[7])
}

func parseDay(text string) (time.Weekday, error) {
	for day := range time.Weekday(daysOfWeek) {
		if strings.EqualFold(day.String()[:3], text) {
			return day, nil
		}
	}
	return 0, errors.New("a window with days such as Mon, Tue, Wed, Thu, Fri, Sat or Sun")
}

// minutes are those of a time of the day; more than a day if there is no such time.
func minutes(hour, minute string) int {
	h, errHour := strconv.Atoi(hour)
	m, errMinute := strconv.Atoi(minute)
	if errHour != nil || errMinute != nil || m >= 60 {
		return minutesOfDay + 1
	}
	return 60*h + m
}

func (w *Window) load(zone string) (err error) {
	if zone == "Local" { // which is another one on each host
		return errors.New("a window in a time zone such as Europe/Berlin or UTC")
	}
	if w.zone, err = time.LoadLocation(zone); err != nil {
		return fmt.Errorf("a window in a time zone such as Europe/Berlin or UTC: %w", err)
	}
	return nil
}

// String is the window as it was written.
func (w Window) String() string { return w.text }

// contains reports whether the clocks of the window's time zone show a time of the window. When they are set back, a
// time occurs twice, and is in the window both times.
func (w Window) contains(t time.Time) bool {
	t = t.In(w.zone)
	day, minute := t.Weekday(), 60*t.Hour()+t.Minute()
	before := (day + daysOfWeek - 1) % daysOfWeek
	switch {
	case w.from < w.to:
		return w.beginsOn(day) && minute >= w.from && minute < w.to
	default:
		return w.beginsOn(day) && minute >= w.from || w.beginsOn(before) && minute < w.to
	}
}

func (w Window) beginsOn(day time.Weekday) bool {
	return (day-w.first+daysOfWeek)%daysOfWeek <= (w.last-w.first+daysOfWeek)%daysOfWeek
}

// Windows are the times in which rollouts may begin; none are all times.
type Windows []Window

// Open reports whether the time is in one of the windows.
func (w Windows) Open(t time.Time) bool {
	return len(w) == 0 || slices.ContainsFunc(w, func(one Window) bool { return one.contains(t) })
}

// NextChange returns when the windows open after t, or close if they are open. It returns the zero time if they do not:
// then they are always open.
func (w Windows) NextChange(t time.Time) time.Time {
	if len(w) == 0 {
		return time.Time{}
	}
	open, next := w.Open(t), t.Truncate(time.Minute)
	for range (daysOfWeek + 1) * minutesOfDay {
		if next = next.Add(time.Minute); w.Open(next) != open {
			return next
		}
	}
	return time.Time{}
}

// Describe says whether the windows are open, and until when, by the clocks of the first one's time zone.
func (w Windows) Describe(t time.Time) string {
	state, until := "closed", ""
	if w.Open(t) {
		state = "open"
	}
	if next := w.NextChange(t); !next.IsZero() {
		until = " until " + next.In(w[0].zone).Format("Mon 15:04 MST")
	}
	return "the window is " + state + until
}
