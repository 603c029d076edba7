//go:build e2e

package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// notifySecret is part of the URL and the headers: no log line may contain it.
const notifySecret = "T012/B345/X0secretX0"

// chat plays the incoming webhook of a chat.
type chat struct {
	*httptest.Server
	mu    sync.Mutex
	texts []string
}

// newChat starts a chat that answers the nth request with a status, 200 if answer returns 0. The body of an error repeats
// the URL.
func newChat(t *testing.T, answer func(request int) int) *chat {
	t.Helper()
	c, requests := &chat{}, 0
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/services/"+notifySecret {
			t.Errorf("got %s %s: %v", r.Method, r.URL, err)
		}
		c.mu.Lock()
		requests++
		code := answer(requests)
		if code == 0 {
			c.texts = append(c.texts, string(body))
		}
		c.mu.Unlock()
		if code != 0 {
			http.Error(w, "no such URL: "+r.URL.String(), code)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// environ configures an agent that posts to the chat.
func (c *chat) environ(more ...string) []string {
	return append(more, "NOTIFY_URL="+c.URL+"/services/"+notifySecret, `NOTIFY_HEADERS={"Authorization": "Bearer `+notifySecret+`"}`,
		"NOTIFY_WHEN=started,drained,failed")
}

func (c *chat) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.texts, "\n")
}

func (p *agentProcess) assertSecret() {
	p.t.Helper()
	if strings.Contains(p.Output(), notifySecret) {
		p.t.Error("the agent has logged the URL or a header of the notifications")
	}
}

// TestNotifications: the chat gets one message for the start and one for the end of each drain, although two hooks and
// copies of their messages report each termination, and although it is unavailable at first.
func TestNotifications(t *testing.T) {
	t.Parallel()
	c := newChat(t, func(request int) int {
		if request == 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	f := newFixtureWithHook(t)
	f.must(f.aws.PutHook(group, awsim.Hook{
		Name: "other", HeartbeatTimeout: hookTimeout, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	first, instance := f.node()
	second, other := f.node()
	f.deploy("api", first, 2, cluster.Pods{Stop: 2 * time.Second})
	f.node()
	agent := f.startAgent(c.environ()...)
	f.terminate(instance)
	f.terminate(other)
	f.waitHandled(instance)
	f.waitHandled(other)
	agent.waitMetric("node_drainer_notifications_total", "sent", 4)
	agent.stop()
	for _, name := range []string{first, second} {
		for _, text := range []string{"Draining node " + name + " until ", "Drained node " + name + " in "} {
			if n := strings.Count(c.all(), text); n != 1 {
				t.Errorf("%q is in %d messages:\n%s", text, n, c.all())
			}
		}
	}
	if !strings.Contains(c.all(), "All 2 pods have left the node. Cause: Instance "+instance+" is terminating (hook ") {
		t.Errorf("the messages lack the pods and the cause:\n%s", c.all())
	}
	agent.assertSecret()
}

// TestNotificationsFail: a chat that refuses everything delays no drain. Its failure is a warning once, without the URL.
func TestNotificationsFail(t *testing.T) {
	t.Parallel()
	c := newChat(t, func(int) int { return http.StatusNotFound })
	f := newFixtureWithHook(t)
	f.mayKill = true
	old, instance := f.node()
	f.deploy("api", old, 1, cluster.Pods{})
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "1"))
	agent := f.startAgent(c.environ("DRAIN_TIMEOUT=5s", "DRAIN_AT_DEADLINE=leave")...)
	f.terminate(instance)
	f.waitHandled(instance)
	agent.waitMetric("node_drainer_notifications_total", "failed", 2)
	agent.logs(1, "notification failed", "level", "warn", "error", "the answer is 404 Not Found")
	agent.stop()
	agent.assertSecret()
}

// TestNotificationsHang: a chat that does not answer delays neither a drain nor the stop of the agent.
func TestNotificationsHang(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	c := newChat(t, func(int) int { <-ended; return 0 })
	t.Cleanup(func() { close(ended) }) // before the server closes
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 1, cluster.Pods{})
	agent := f.startAgent(c.environ("NOTIFY_TIMEOUT=1m")...)
	f.terminate(instance)
	f.waitHandled(instance)
	begun := time.Now()
	agent.stop()
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the agent stopped after %v", took)
	}
	agent.waitLog("notification failed", "error", "context canceled")
	agent.assertSecret()
}

// TestNotificationMistakes: the agent does not start, and says what is wrong, but not the secrets.
func TestNotificationMistakes(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"NOTIFY_URL=hooks.example.com/" + notifySecret:                                   "NOTIFY_URL is invalid: must be https://HOST/PATH",
		"NOTIFY_HEADERS=Token " + notifySecret:                                           "NOTIFY_HEADERS is invalid: must be a JSON object",
		`NOTIFY_TEMPLATE={"key": "` + notifySecret + `",` + "\n\"text\": {{json .Txt}}}": "NOTIFY_TEMPLATE:2:15: executing",
	} {
		p := startAgentProcess(t, agentBinary, []string{
			"CLUSTER_NAME=demo", "QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/q", "LEADER_ELECTION=false", set,
		})
		code, err := p.WaitEnd(waits(t))
		if out := p.Output(); code != 2 || err != nil || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %v; the output does not contain %q:\n%s", code, err, want, out)
		}
		p.assertSecret()
	}
}
