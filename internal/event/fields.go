package event

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxText is the longest accepted text; Auto Scaling allows names of 255 characters.
	maxText = 255
	// maxMetadata is the longest NotificationMetadata; Auto Scaling allows 4000 characters.
	maxMetadata = 4000
)

// fields reads the fields of one JSON object and remembers the first error, so that a caller can read all
// fields and check err once. Names are case-sensitive: encoding/json would ignore case for a struct, and
// confuse the envelope's "time" with the direct form's "Time". The last of two equal names wins. A null is an
// absent field.
type fields struct {
	raw map[string]json.RawMessage
	err error
}

// open reads one object; what is its name in the error.
func open(data []byte, what string) (*fields, error) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(data, &raw) != nil || raw == nil {
		return nil, malformed(what, "is not a JSON object")
	}
	return &fields{raw: raw}, nil
}

func (f *fields) has(key string) bool {
	value, ok := f.raw[key]
	return ok && string(value) != "null"
}

func (f *fields) fail(key, problem string) {
	if f.err == nil {
		f.err = malformed(key, problem)
	}
}

// long returns the text of a field, "" when it is absent.
func (f *fields) long(key string, limit int) string {
	if !f.has(key) {
		return ""
	}
	var value string
	if json.Unmarshal(f.raw[key], &value) != nil {
		f.fail(key, "is not text")
		return ""
	}
	if utf8.RuneCountInString(value) > limit {
		f.fail(key, "is too long")
		return ""
	}
	return value
}

// text returns a short text, "" when it is absent.
func (f *fields) text(key string) string { return f.long(key, maxText) }

// name returns a short text that must not be empty.
func (f *fields) name(key string) string {
	value := f.text(key)
	if value == "" {
		f.fail(key, "is empty")
	}
	return value
}

// word returns a text that must not be empty, and consist of lower-case letters and hyphens, as EC2's states
// do.
func (f *fields) word(key string) string {
	value := f.name(key)
	if strings.Trim(value, "abcdefghijklmnopqrstuvwxyz-") != "" {
		f.fail(key, "is not a word")
	}
	return value
}

// instance returns an instance id, which must not be empty.
func (f *fields) instance(key string) string { return f.id(key, "i-") }

// id returns the id of an EC2 resource, which must have the prefix of its type.
func (f *fields) id(key, prefix string) string {
	value := f.name(key)
	if !isID(value, prefix) {
		f.fail(key, "is not an id that begins with "+prefix)
	}
	return value
}

// iso returns a time in ISO 8601, which AWS writes with or without a fraction, seconds or a colon in the
// offset. It returns absent if there is none.
func (f *fields) iso(key string, absent time.Time) time.Time {
	at := f.instant(key, time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00")
	if at.IsZero() {
		return absent
	}
	return at
}

// instant returns a time in one of the layouts, in UTC; zero when it is absent.
func (f *fields) instant(key string, layouts ...string) time.Time {
	value := f.text(key)
	if value == "" {
		return time.Time{}
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, value); err == nil {
			return at.UTC()
		}
	}
	f.fail(key, "is not a time")
	return time.Time{}
}

// inner returns an object, which must not be missing.
func (f *fields) inner(key string) *fields {
	inner, err := open(f.raw[key], key)
	if err != nil && f.err == nil {
		f.err = err
	}
	if inner == nil {
		inner = &fields{err: f.err}
	}
	return inner
}

// isID reports whether id is the prefix and 8 to 17 hexadecimal digits: 8 before 2016, 17 since ("Longer
// format resource IDs").
func isID(id, prefix string) bool {
	digits, ok := strings.CutPrefix(id, prefix)
	return ok && len(digits) >= 8 && len(digits) <= 17 && strings.Trim(digits, "0123456789abcdef") == ""
}
