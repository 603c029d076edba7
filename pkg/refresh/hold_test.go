package refresh_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestHoldsOf: all that a trigger has changed has the holder of its lease as its owner.
func TestHoldsOf(t *testing.T) {
	t.Parallel()
	all := map[string]string{
		refresh.SurgeTag: "10-12", refresh.SuspendedTag: "AZRebalance", refresh.MaxTag: "10-12", "role": "worker",
		refresh.ProtectedTag: "0a01 0a02", refresh.StandbyTag + "1": "i-1 i-2=kept i-3",
	}
	texts := []string{
		"surge desired capacity raised from 10 to 12", "processes suspended: AZRebalance", "max-size maximum size raised from 10 to 12",
		"protection protected from scale in: i-0a01, i-0a02",
		"standby in Standby: i-1; replaced, and kept in Standby: i-2",
	}
	for name, tt := range map[string]struct {
		lease string
		want  []string
		owner string
	}{
		"a trigger lives or was killed": {"ci-1/42 2026-11-23T12:00:00Z", append([]string{"lease lease of the group"}, texts...), "ci-1/42"},
		"no trigger":                    {"", texts, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tags := map[string]string{refresh.LeaseTag: tt.lease}
			maps.Copy(tags, all)
			var got []string
			instances := []refresh.Instance{{ID: "i-1", State: "Standby"}, {ID: "i-2", State: "Standby"}, {ID: "i-3", State: "InService"}}
			for _, h := range refresh.HoldsOf(refresh.Group{Tags: tags, Instances: instances}) {
				got = append(got, string(h.Kind)+" "+h.Text)
				if h.Owner != tt.owner || h.Expires.Equal(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)) != (tt.owner != "") {
					t.Errorf("%s is held by %q until %v", h.Kind, h.Owner, h.Expires)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
