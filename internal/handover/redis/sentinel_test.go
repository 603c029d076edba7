package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// watching answers as a sentinel that knows a leader and a replica.
func watching(command string) string {
	array := func(words ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		return text
	}
	fields := func(ip string) string {
		return array("name", "shop", "ip", ip, "port", "6379", "flags", "slave", "info-refresh", "7")
	}
	switch {
	case strings.HasPrefix(command, "SENTINEL MASTERS"):
		return "*1\r\n" + fields("10.0.0.1")
	case strings.HasPrefix(command, "SENTINEL MASTER"):
		return fields("10.0.0.1")
	case strings.HasPrefix(command, "SENTINEL GET-MASTER-ADDR-BY-NAME"):
		return array("10.0.0.1", "6379")
	case strings.HasPrefix(command, "SENTINEL REPLICAS"):
		return "*1\r\n" + fields("10.0.0.2")
	case strings.HasPrefix(command, "SENTINEL SENTINELS"):
		return "*0\r\n"
	}
	return "+OK\r\n"
}

func watchedRequest() workload.Request {
	r := request()
	r.Peers = append(r.Peers, workload.Pod{
		Namespace: "shop", Name: "sentinel-0", IP: "10.0.0.9", Stays: true, Labels: map[string]string{"app": "sentinel"},
	})
	for _, p := range []workload.Pod{r.Pod, r.Peers[0]} {
		p.Annotations[workload.SentinelsAnnotation] = "app in (sentinel)"
	}
	return r
}

// TestLagThatNeverEnds expects that writes are paused for a short time, and that the leader stays one.
func TestLagThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, replica := pair()
		var written atomic.Int64
		f := newFakes()
		f.servers[leaderAt] = f.answering(plain(func() string {
			return strings.Replace(leader, "repl_offset:100", fmt.Sprintf("repl_offset:%d", 100+written.Add(10)), 1)
		}))
		f.servers[replicaAt] = f.answering(plain(text(replica)))
		f.servers["10.0.0.9:26379"] = f.answering(watching)
		start := time.Now()
		answer := f.release(t, watchedRequest())
		if answer.Go || answer.Outcome != handover.GroupBehind || !strings.Contains(answer.Message, "while writes are paused") {
			t.Errorf("got %+v", answer)
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("writes were paused for %s", d)
		}
		changes := slices.DeleteFunc(f.sent(), func(c string) bool { return strings.HasPrefix(c, "SENTINEL") })
		if want := []string{"CLIENT PAUSE 5000 WRITE", "CLIENT UNPAUSE"}; !slices.Equal(changes, want) {
			t.Errorf("sent %q, want %q", changes, want)
		}
	})
}

// TestSentinelAnswers expects an answer for each state, and no pause of writes.
func TestSentinelAnswers(t *testing.T) {
	leader, replica := pair()
	for name, tt := range map[string]struct {
		replica  string
		sentinel func(string) string
		request  func(*workload.Request)
		want     handover.Outcome
		message  string
	}{
		"no replica may lead": {
			strings.Replace(replica, "priority:100", "priority:0", 1), watching, nil,
			handover.NoReplica, "replica-priority is 0",
		},
		"no quorum": {
			replica, replyTo("CKQUORUM", "-NOQUORUM 1 usable Sentinels\r\n"), nil,
			handover.GroupBehind, "NOQUORUM 1 usable Sentinels",
		},
		"several masters": {
			replica, replyTo("MASTERS", "*2\r\n*0\r\n*0\r\n"), nil,
			handover.Invalid, workload.MasterAnnotation,
		},
		"unknown master": {
			replica, replyTo("GET-MASTER-ADDR-BY-NAME", "*-1\r\n"), nil,
			handover.GroupBehind, `watches no master named "shop"`,
		},
		"replica that the sentinel does not know yet": {
			replica, replyTo("REPLICAS", "*0\r\n"), nil, handover.HandingOver, "no sentinel watches all replicas",
		},
		"name with a wildcard": {
			replica, watching, func(r *workload.Request) {
				r.Pod.Annotations[workload.MasterAnnotation] = "*"
			}, handover.Invalid, "wildcard",
		},
		"name with a wildcard, as a sentinel says": {
			replica, replyTo("MASTERS", "*1\r\n*2\r\n$4\r\nname\r\n$4\r\nsh?p\r\n"), nil, handover.Refused, `"sh?p"`,
		},
		"no name": {
			replica, replyTo("MASTERS", "*1\r\n*0\r\n"), nil, handover.Refused, `a master named ""`,
		},
		"replica on a node that leaves": {
			replica, watching, func(r *workload.Request) { r.Peers[0].Stays = false },
			handover.GroupBehind, "does not stay",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes()
				f.servers[leaderAt] = f.answering(plain(text(leader)))
				f.servers[replicaAt] = f.answering(plain(text(tt.replica)))
				f.servers["10.0.0.9:26379"] = f.answering(tt.sentinel)
				r := watchedRequest()
				if tt.request != nil {
					tt.request(&r)
				}
				if answer := f.release(t, r); answer.Outcome != tt.want || !strings.Contains(answer.Message, tt.message) {
					t.Errorf("got %+v, want %s with %q", answer, tt.want, tt.message)
				}
				if slices.ContainsFunc(f.sent(), func(c string) bool {
					return strings.HasPrefix(c, "CLIENT") || strings.ContainsAny(c, "*?") || strings.HasSuffix(c, " ")
				}) {
					t.Errorf("sent %q", f.sent())
				}
			})
		})
	}
}

// replyTo answers as watching does, but for one command.
func replyTo(name, reply string) func(string) string {
	return func(command string) string {
		if strings.HasPrefix(command, "SENTINEL "+name) {
			return reply
		}
		return watching(command)
	}
}

// TestOneSentinelFailsOver expects that a call which finds a failover under way, after a crash, asks for no other.
func TestOneSentinelFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, replica := pair()
		f := newFakes()
		stopped := strings.NewReplacer("10.0.0.1", "10.0.0.2", "status:up", "status:down").Replace(replica)
		f.servers[leaderAt] = f.answering(plain(text(stopped)))
		f.servers[replicaAt] = f.answering(plain(text(replica)))
		f.servers["10.0.0.9:26379"] = f.answering(func(command string) string {
			reply := watching(command)
			if strings.HasPrefix(command, "SENTINEL MASTER ") {
				reply = strings.Replace(reply, "$5\r\nslave\r\n", "$27\r\nmaster,failover_in_progress\r\n", 1)
			}
			return reply
		})
		answer := f.release(t, watchedRequest())
		if answer.Outcome != handover.HandingOver || !strings.Contains(answer.Message, "not promoted a replica") {
			t.Errorf("got %+v", answer)
		}
		if slices.ContainsFunc(f.sent(), func(c string) bool { return strings.HasPrefix(c, "SENTINEL FAILOVER") }) {
			t.Errorf("sent %q", f.sent())
		}
	})
}
