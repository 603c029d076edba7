package awsim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestAdmin drives a server as a shell script would, with curl.
func TestAdmin(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	url := s.CreateQueue("jobs", nil)
	curl := transport(t)
	do := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+"/_awsim/"+path,
			strings.NewReader(body))
		must(t, err)
		resp, err := curl.Do(req)
		must(t, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(answer)
	}
	client := queueClient(t, s)
	listed := func() string {
		_, err := client.ListQueues(t.Context(), nil)
		return code(err)
	}

	status, answer := do("POST", "queues/jobs/messages", "not { JSON")
	if status != 200 || s.Queue(url).Visible != 1 {
		t.Errorf("sending answered %d %s", status, answer)
	}
	if status, answer := do("POST", "queues/none/messages", "{}"); status != 400 {
		t.Errorf("sending to no queue answered %d %s", status, answer)
	}
	for _, bad := range []string{"{", `{"Foo":1}`, `{"Latency":"soon"}`, `{"Match":1}`} {
		if status, answer := do("POST", "faults", bad); status != 400 || !strings.Contains(answer, "not a fault") {
			t.Errorf("%s answered %d %s", bad, status, answer)
		}
	}
	do("POST", "faults", `{"Service":"sqs","Action":"ListQueues","Status":500,"Latency":"1ms"}`)
	if got := listed(); got != "InternalFailure" {
		t.Errorf("with a fault, the SDK got %q", got)
	}
	do("DELETE", "faults", "")
	if got := listed(); got != "" {
		t.Errorf("without the fault, the SDK got %q", got)
	}
	counts := map[string]int{}
	_, answer = do("GET", "requests", "")
	if json.Unmarshal([]byte(answer), &counts) != nil || counts["sqs.ListQueues"] != 2 || len(counts) != 1 {
		t.Errorf("the requests are %s", answer)
	}
	if status, answer := do("GET", "ledger", ""); status != 200 || !json.Valid([]byte(answer)) {
		t.Errorf("the ledger is %d %s", status, answer)
	}
	if status, _ := do("GET", "nothing", ""); status != 404 {
		t.Errorf("no such page answered %d", status)
	}
}
