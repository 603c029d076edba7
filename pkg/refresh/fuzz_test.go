package refresh

import (
	"fmt"
	"testing"
)

// FuzzTags checks what is promised of tags that others may write: no surge or maximum size is out of bounds, only
// instances of the group are in a record, and what is written again fits into a tag.
func FuzzTags(f *testing.F) {
	f.Add("10-12", "10-12", "ci-1 2026-01-02T03:04:05Z", "i-1 i-2=kept", "lt-1/7 failed 2026-01-02T03:04:05Z", uint8(12))
	f.Add("raising 10-12 10 2026-01-02T03:04:05Z", "10-12 14", "", "i-9", "", uint8(10))
	f.Add("0-1000 i-1", "0-1000", "a b", "i-1 i-1 i-1", "x", uint8(1))
	f.Fuzz(func(t *testing.T, surge, most, lease, standby, failed string, desired uint8) {
		g := Group{
			Min: 1, Desired: int(desired), Max: 100, Instances: []Instance{{ID: "i-1"}, {ID: "i-2"}},
			Tags: map[string]string{
				SurgeTag: surge, MaxTag: most, LeaseTag: lease, StandbyTag + "1": standby, StandbyTag + surge: standby,
				FailedTag: failed, SuspendedTag: standby, ProtectedTag + "1": standby, BegunTag: lease, WaveTag: surge,
			},
		}
		if s, ok := SurgeOf(g); ok && (s.From < 0 || s.To < s.From || s.Left(g) > max(g.Desired-g.Min, 0)) {
			t.Fatalf("surge %+v, of which %d are left", s, s.Left(g))
		}
		if m, ok := RaisedMaxOf(g); ok && len(m.To) == 0 {
			t.Fatalf("maximum size %+v", m)
		}
		record := StandbyOf(g)
		for id := range record {
			if id != "i-1" && id != "i-2" {
				t.Fatalf("the record has %q", id)
			}
		}
		set, _ := StandbyTags(g, record)
		for key, value := range set {
			if len(value) > 256 {
				t.Fatalf("the tag %s has %d characters", key, len(value))
			}
		}
		if l, ok := LeaseOf(g); ok && l.Holder == "" {
			t.Fatal("a lease without a holder")
		}
		failure, _ := FailedOf(g)
		_, _ = WaveOf(g)
		_ = fmt.Sprint(HoldsOf(g), failure.Describe())
	})
}
