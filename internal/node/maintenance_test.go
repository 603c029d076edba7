package node

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

// TestAnnounceMaintenance: of announcements that are ahead the earliest is kept, and the cache shows it afterwards.
func TestAnnounceMaintenance(t *testing.T) {
	virtual(t, "announcements", func(t *testing.T) {
		client := fake.NewClientset(newNode())
		n := watched(t, client, defaults)
		now := time.Now().UTC()
		for _, step := range []struct {
			after       time.Duration
			maintenance time.Duration // after now
			want        time.Duration
		}{
			{0, 48 * time.Hour, 48 * time.Hour},
			{0, 72 * time.Hour, 48 * time.Hour},
			{0, 24 * time.Hour, 24 * time.Hour},
			{25 * time.Hour, 72 * time.Hour, 72 * time.Hour}, // the one before is over
		} {
			time.Sleep(step.after)
			found, _ := n.Find(instance)
			if err := n.Announce(t.Context(), found, now.Add(step.maintenance)); err != nil {
				t.Fatal(err)
			}
			found, _ = n.Find(instance)
			if got := found.Maintenance.Sub(now); got != step.want || !found.Mark.Since.IsZero() {
				t.Errorf("maintenance is announced in %v, want %v; the mark is %v", got, step.want, found.Mark)
			}
		}
		found, _ := n.Find(instance)
		if err := n.EndMaintenance(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		if annotations := nodeNow(t, client).Annotations; len(annotations) != 0 {
			t.Errorf("annotations are left: %v", annotations)
		}
	})
}

func TestAnnounceOnADeletedNode(t *testing.T) {
	virtual(t, "deleted", func(t *testing.T) {
		n := watched(t, fake.NewClientset(newNode()), defaults)
		err := n.Announce(t.Context(), Node{Name: "n", UID: "other", InstanceID: instance}, time.Now())
		if !errors.Is(err, ErrGone) {
			t.Errorf("got %v", err)
		}
	})
}

func TestMaintenanceOf(t *testing.T) {
	want := time.Date(2027, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, annotation string
		want             time.Time
	}{
		{"none", "", time.Time{}},
		{"announced", `{"instance":"` + instance + `","startsAt":"2027-03-01T10:00:00Z"}`, want},
		{"of another instance", `{"instance":"i-0ffffffffffffffff","startsAt":"2027-03-01T10:00:00Z"}`, time.Time{}},
		{"not JSON", "tomorrow", time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := trimmed(t, newNode(annotated(MaintenanceAnnotation, tt.annotation)))
			if got := nodeOf(n).Maintenance; !got.Equal(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
