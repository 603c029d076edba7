package refresh

import (
	"strings"
	"testing"
	"time"
)

func TestParseWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{ // want is part of the error; empty if there is none
		{"Mon-Fri 22:00-05:00 Europe/Berlin", ""},
		{"  sat   00:00-24:00 ", ""},
		{"22:00-05:00", ""},
		{"9:30-17:00 America/New_York", ""},
		{"", "such as"},
		{"Mon-Fri", "such as"},
		{"Mon,Tue 22:00-05:00", "such as"},
		{"Montag 22:00-05:00", "such as"},
		{"Mon-Foo 22:00-05:00", "days such as"},
		{"Foo 22:00-05:00", "days such as"},
		{"22:60-05:00", "from 00:00 to 24:00"},
		{"24:00-05:00", "from 00:00 to 24:00"},
		{"22:00-24:01", "from 00:00 to 24:00"},
		{"22:00-22:00", "from 00:00 to 24:00"},
		{"22:00-05:00 Europe/Atlantis", "unknown time zone Europe/Atlantis"},
		{"22:00-05:00 Local", "in a time zone"},
		{"22:00-05:00 Europe/Berlin now", "such as"},
	} {
		w, err := ParseWindow(tt.text)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got the error %v, want %q", tt.text, err, tt.want)
		}
		if err == nil && w.String() != strings.Join(strings.Fields(tt.text), " ") {
			t.Errorf("%q became %q", tt.text, w)
		}
	}
}

// TestWindows: 2026-11-23 is a Monday. In Berlin the clocks are set forward at 2026-03-29 02:00, and back at 2026-10-25
// 03:00.
func TestWindows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		windows string // separated by commas
		at      string // in UTC
		open    bool
		next    string // in UTC; empty if nothing changes
	}{
		{"none", "", "2026-11-23 12:00", true, ""},
		{"within a day, before", "Mon-Fri 09:00-17:00", "2026-11-23 08:59", false, "2026-11-23 09:00"},
		{"within a day, the first minute", "Mon-Fri 09:00-17:00", "2026-11-23 09:00", true, "2026-11-23 17:00"},
		{"within a day, the last minute", "Mon-Fri 09:00-17:00", "2026-11-23 16:59", true, "2026-11-23 17:00"},
		{"within a day, after", "Mon-Fri 09:00-17:00", "2026-11-23 17:00", false, "2026-11-24 09:00"},
		{"within a day, before the weekend", "Mon-Fri 09:00-17:00", "2026-11-27 17:00", false, "2026-11-30 09:00"},
		{"across midnight, on the evening", "Mon-Fri 22:00-05:00", "2026-11-23 22:00", true, "2026-11-24 05:00"},
		{"across midnight, on the morning", "Mon-Fri 22:00-05:00", "2026-11-24 04:59", true, "2026-11-24 05:00"},
		{"across midnight, before the first", "Mon-Fri 22:00-05:00", "2026-11-23 04:00", false, "2026-11-23 22:00"},
		{"across midnight, after the last", "Mon-Fri 22:00-05:00", "2026-11-28 04:00", true, "2026-11-28 05:00"},
		{"across midnight, the weekend", "Mon-Fri 22:00-05:00", "2026-11-28 22:30", false, "2026-11-30 22:00"},
		{"until midnight", "Sun 20:00-24:00", "2026-11-22 23:59", true, "2026-11-23 00:00"},
		{"until midnight, written as 00:00", "Sun 20:00-00:00", "2026-11-22 23:59", true, "2026-11-23 00:00"},
		{"days across the week's end", "Sat-Mon 10:00-11:00", "2026-11-23 10:30", true, "2026-11-23 11:00"},
		{"days across the week's end, between", "Sat-Mon 10:00-11:00", "2026-11-24 10:30", false, "2026-11-28 10:00"},
		{"one day", "Wed 10:00-11:00", "2026-11-25 11:00", false, "2026-12-02 10:00"},
		{"always", "00:00-24:00", "2026-11-25 11:00", true, ""},
		{"always, by two", "00:00-12:00,12:00-24:00", "2026-11-25 11:00", true, ""},
		{"two that touch", "Mon 20:00-24:00,Tue 00:00-02:00", "2026-11-23 21:00", true, "2026-11-24 02:00"},
		{"another time zone", "Mon 22:00-23:00 Europe/Berlin", "2026-11-23 21:00", true, "2026-11-23 22:00"},
		{"another day there", "Mon 22:00-23:00 America/New_York", "2026-11-24 03:30", true, "2026-11-24 04:00"},
		{"the seconds of a minute", "09:00-17:00", "2026-11-23 16:59", true, "2026-11-23 17:00"},
		{"summer time begins: an hour shorter", "Sat 22:00-05:00 Europe/Berlin", "2026-03-28 21:00", true, "2026-03-29 03:00"},
		{"summer time begins: what does not exist", "Sun 02:15-02:45 Europe/Berlin", "2026-03-28 23:00", false, "2026-04-05 00:15"},
		{"summer time begins: the end does not exist", "Sun 01:00-02:30 Europe/Berlin", "2026-03-29 00:30", true, "2026-03-29 01:00"},
		{"summer time ends: an hour longer", "Sat 22:00-05:00 Europe/Berlin", "2026-10-24 20:00", true, "2026-10-25 04:00"},
		{"summer time ends: twice the same time", "Sun 02:00-02:30 Europe/Berlin", "2026-10-25 00:30", false, "2026-10-25 01:00"},
		{"summer time has ended: the same evening", "Sat-Sun 22:00-05:00 Europe/Berlin", "2026-10-25 20:30", false, "2026-10-25 21:00"},
	} {
		var windows Windows
		for text := range strings.SplitSeq(tt.windows, ",") {
			if w, err := ParseWindow(text); err == nil {
				windows = append(windows, w)
			}
		}
		at, err := time.Parse("2006-01-02 15:04", tt.at)
		if err != nil {
			t.Fatal(err)
		}
		at = at.Add(59 * time.Second)
		next := ""
		if n := windows.NextChange(at); !n.IsZero() {
			next = n.UTC().Format("2006-01-02 15:04")
		}
		if windows.Open(at) != tt.open || next != tt.next {
			t.Errorf("%s: at %s it is open: %v, until %q; want %v, %q", tt.name, tt.at, windows.Open(at), next, tt.open, tt.next)
		}
	}
}

func TestDescribeWindows(t *testing.T) {
	t.Parallel()
	w, err := ParseWindow("Mon-Fri 22:00-05:00 Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		windows Windows
		at      time.Time
		want    string
	}{
		{nil, at, "the window is open"},
		{Windows{w}, at, "the window is closed until Mon 22:00 CET"},
		{Windows{w}, at.Add(9 * time.Hour), "the window is open until Tue 05:00 CET"},
	} {
		if got := tt.windows.Describe(tt.at); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
