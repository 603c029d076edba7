package notify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/notify"
)

// drainOf returns what is recorded of the drain of a node.
func drainOf(i int, status notify.Status) notify.Drain {
	d := notify.Drain{
		Status: status, Node: fmt.Sprintf("node-%d", i), NodeUID: fmt.Sprintf("uid-%d", i), Instance: fmt.Sprintf("i-%d", i),
		Event: "lifecycle-terminating", Group: "workers", Hook: "drain",
		Cause: fmt.Sprintf("Instance i-%d is terminating (hook drain of group workers)", i),
		Since: time.Unix(0, 0), Deadline: time.Unix(3600, 0),
	}
	switch status {
	case notify.Drained:
		d.Result, d.Took, d.Pods, d.Forced = "All 12 pods have left the node, 2 of them by deletion", 41600*time.Millisecond, 12, 2
	case notify.Failed:
		d.Result, d.Took, d.Pods = "The drain ended with 2 of 12 pods left on the node: web/a, web/b", time.Hour, 12
		d.Left = []string{"web/a", "web/b"}
	}
	return d
}

// drainsOf returns n drains of nodes from node-0 on.
func drainsOf(n int, status notify.Status) (drains []notify.Drain) {
	for i := range n {
		drains = append(drains, drainOf(i, status))
	}
	return drains
}

const (
	startedText = "Draining node node-0 until 1970-01-01T01:00:00Z. Cause: Instance i-0 is terminating (hook drain of group workers)."
	drainedText = "Drained node node-0 in 42s: All 12 pods have left the node, 2 of them by deletion. " +
		"Cause: Instance i-0 is terminating (hook drain of group workers)."
	failedText = "Failed to drain node node-0: The drain ended with 2 of 12 pods left on the node: web/a, web/b. " +
		"Cause: Instance i-0 is terminating (hook drain of group workers)."
)

// rendered returns the body of the one message about the drains.
func rendered(t *testing.T, template string, drains ...notify.Drain) (body string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *notify.Config) { c.Template, c.Headers = template, `{"Content-Type": "text/plain"}` })
		for _, d := range drains {
			f.Add(d)
		}
		f.stop()
		if len(f.bodies) != 1 {
			t.Fatalf("%d messages: %q; %q", len(f.bodies), f.bodies, f.facts)
		}
		body = f.bodies[0]
	})
	return body
}

func TestRendering(t *testing.T) {
	t.Parallel()
	started, drained, failed := drainOf(0, notify.Started), drainOf(0, notify.Drained), drainOf(0, notify.Failed)
	odd := drainOf(0, notify.Started)
	odd.Cause = "The alarm \"a\\b\"\nis <on>"
	for _, tt := range []struct {
		name, template string
		drains         []notify.Drain
		want           string
	}{
		{"started", "{{.Text}}", []notify.Drain{started}, "prod: " + startedText},
		{"drained", "{{.Text}}", []notify.Drain{drained}, "prod: " + drainedText},
		{"failed", "{{.Text}}", []notify.Drain{failed}, "prod: " + failedText},
		{
			"several, those that have failed first", "{{.Text}}",
			[]notify.Drain{started, drained, failed},
			"prod: 1 failed, 1 drained, 1 started\n- " + failedText + "\n- " + drainedText + "\n- " + startedText,
		},
		{"the summary", "{{.Summary}} {{.Failed}}", append(drainsOf(30, notify.Drained), failed), "1 failed, 30 drained true"},
		{"more than one message describes", "{{len .Drains}} {{.More}} {{.Failed}}", drainsOf(31, notify.Drained), "20 11 false"},
		{
			"JSON", `{{json .Text}} {{json .Drains}}`,
			[]notify.Drain{odd},
			`"prod: Draining node node-0 until 1970-01-01T01:00:00Z. Cause: The alarm \"a\\b\"\nis \u003con\u003e." [{`,
		},
		{
			"the fields of a drain",
			`{{range .Drains}}{{.Status}} {{.Node}} {{.Instance}} {{.Event}} {{.Group}} {{.Hook}} {{.Pods}} {{.Forced}} {{.Took}} ` +
				`{{formatTime "15:04 MST" .Deadline}} {{join .Left ","}}{{end}}`,
			[]notify.Drain{failed},
			"failed node-0 i-0 lifecycle-terminating workers drain 12 0 1h0m0s 01:00 UTC web/a,web/b",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := rendered(t, tt.template, tt.drains...); !strings.HasPrefix(got, tt.want) || tt.name != "JSON" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLengthOfText: the text of the longest message is below the 4,000 characters at which services cut it.
func TestLengthOfText(t *testing.T) {
	t.Parallel()
	text := rendered(t, "{{.Text}}", drainsOf(1000, notify.Drained)...)
	if lines := strings.Split(text, "\n"); len(lines) != 22 || lines[21] != "and 980 more" || lines[0] != "prod: 1000 drained" {
		t.Errorf("the text has %d lines, of which the last is %q", len(lines), lines[len(lines)-1])
	}
	if len(text) > 4000 {
		t.Errorf("the text has %d characters", len(text))
	}
}

// TestDefaultTemplate: the body is a JSON object with the text.
func TestDefaultTemplate(t *testing.T) {
	t.Parallel()
	var got map[string]string
	if err := json.Unmarshal([]byte(rendered(t, configure(nil).Template, drainOf(0, notify.Started))), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"text": "prod: " + startedText}, got); diff != "" {
		t.Errorf("the body (-want +got):\n%s", diff)
	}
}
