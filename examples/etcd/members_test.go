package main

import "testing"

func TestProblem(t *testing.T) {
	t.Parallel()
	self := &member{Leader: "1", Index: 5000}
	self.Metadata.Name = "etcd-0"
	for name, tt := range map[string]struct {
		change func(*member)
		want   string
	}{
		"in sync":       {func(*member) {}, ""},
		"ahead of self": {func(m *member) { m.Applied = 6000 }, ""},
		"no answer":     {func(m *member) { m.Header.ID = "" }, "does not answer"},
		"deleted":       {func(m *member) { m.Metadata.DeletionTimestamp = "2026-01-02T03:04:05Z" }, "is being deleted"},
		"corrupt":       {func(m *member) { m.Errors = []string{"alarm:CORRUPT"} }, "reports alarm:CORRUPT"},
		"no leader":     {func(m *member) { m.Leader = "" }, "does not follow the leader of etcd-0"},
		"other leader":  {func(m *member) { m.Leader = "2" }, "does not follow the leader of etcd-0"},
		"learner":       {func(m *member) { m.IsLearner = true }, "is not in sync"},
		"behind":        {func(m *member) { m.Applied = 3999 }, "is not in sync"},
	} {
		m := &member{Leader: "1", Applied: 4000}
		m.Header.ID = "3"
		tt.change(m)
		if got := m.problem(self); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if got := (&member{Header: self.Header}).problem(&member{}); got == "" {
		t.Error("a member is fine although nobody leads")
	}
}
