package refresh

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// FailedTag is a tag of a group: its Failed.
const FailedTag = "node-drainer.io/failed"

// Failed says that a rollout to a target ended badly, so that trigger watch does not try that target again.
type Failed struct {
	Target  string // The Key of the target.
	Outcome string // One word.
	At      time.Time
}

// String is the failure as its tag has it: "TARGET OUTCOME TIME".
func (f Failed) String() string {
	return f.Target + " " + f.Outcome + " " + f.At.UTC().Format(time.RFC3339)
}

// FailedOf reads the failure from the group's tags. Of a tag that somebody else has written only the first word counts,
// as the target.
func FailedOf(g Group) (f Failed, ok bool) {
	words := strings.Fields(g.Tags[FailedTag])
	if len(words) == 0 {
		return Failed{}, false
	}
	f.Target = words[0]
	if len(words) == 3 {
		f.Outcome = words[1]
		f.At, _ = time.Parse(time.RFC3339, words[2])
	}
	return f, true
}

// Describe says what failed and when: "lt-1/7 failed at 2026-11-23T22:00:00Z".
func (f Failed) Describe() string {
	text := f.Target
	if f.Outcome != "" {
		text += " " + f.Outcome
	}
	if !f.At.IsZero() {
		text += " at " + f.At.UTC().Format(time.RFC3339)
	}
	return text
}

// longestKey leaves room in the tag, whose value may have 256 characters, for the rest of a Failed.
const longestKey = 200

// keyPattern is what a key may consist of. Tags of AWS may contain that, too.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9._:/@+=-]+$`)

// key identifies what a resolved source launches: "lt-1/7" for version 7 of a launch template. It has the AMI if that
// is a Systems Manager parameter, and a checksum of the overrides.
func (t Templates) key(s Source) string {
	key := t.templateKey(s.Template)
	if s.Configuration != "" {
		key = "launch-configuration/" + s.Configuration
	}
	if len(s.Overrides) > 0 {
		var all strings.Builder
		for _, o := range s.Overrides {
			fmt.Fprintf(&all, "%q %v %q %q %q %q\n", o.Type, o.Requirements, o.Allowed, o.Excluded, o.ImageID,
				t.templateKey(o.Template))
		}
		key += "+" + checksum(all.String())
	}
	if len(key) > longestKey || !keyPattern.MatchString(key) {
		return checksum(key)
	}
	return key
}

func (t Templates) templateKey(s *Template) string {
	if s == nil {
		return ""
	}
	key := cmp.Or(s.ID, s.Name) + "/" + s.Version
	if t.find(*s).Aliases[s.number()] {
		key += "/" + t.image(*s)
	}
	return key
}

// checksum is short enough for people to compare.
func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
