package redis_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

const (
	leaderAt  = "10.0.0.1:6379"
	replicaAt = "10.0.0.2:6379"
)

// pair returns a leader and its replica.
func pair() (leader, replica string) {
	return "role:master\nmaster_replid:aaa\nmaster_repl_offset:100\nmaster_failover_state:no-failover\n" +
			"slave0:ip=10.0.0.2,port=6379,state=online,offset=100,lag=0\n",
		"role:slave\nmaster_host:10.0.0.1\nmaster_port:6379\nmaster_link_status:up\nmaster_sync_in_progress:0\n" +
			"slave_priority:100\nslave_repl_offset:100\nmaster_replid:aaa\n"
}

func request() workload.Request {
	return workload.Request{Pod: pod("redis-0", "10.0.0.1"), Peers: []workload.Pod{pod("redis-1", "10.0.0.2")}}
}

// TestReleaseAnswers expects an answer for each state, after limited time.
func TestReleaseAnswers(t *testing.T) {
	leader, replica := pair()
	for name, tt := range map[string]struct {
		leader, replica string // INFO replication
		request         func(*workload.Request)
		want            handover.Outcome
		message         string // a part of it
		forbidden       bool   // No replica may be told to take over.
	}{
		"replica leaves": {
			leader, replica,
			func(r *workload.Request) { r.Pod, r.Peers[0] = r.Peers[0], r.Pod },
			handover.NotLeading, "", true,
		},
		"replica leaves while its leader does": {
			leader, replica,
			func(r *workload.Request) { r.Pod, r.Peers[0] = r.Peers[0], r.Pod; r.Peers[0].Deleting = true },
			handover.GroupBehind, "redis-0 is being deleted", true,
		},
		"no replica": {
			"role:master\nmaster_repl_offset:1\n", "",
			func(r *workload.Request) { r.Peers = nil },
			handover.NoReplica, "no replica", true,
		},
		"replica of another kind": {
			leader, replica,
			func(r *workload.Request) { delete(r.Peers[0].Annotations, handover.KindAnnotation) },
			handover.Refused, "the replica 10.0.0.2 of redis-0 is no pod", true,
		},
		"replica behind": {
			strings.Replace(leader, "master_repl_offset:100", "master_repl_offset:9000000", 1), replica, nil,
			handover.GroupBehind, "redis-1 is 8999900 bytes behind", true,
		},
		"silent replica": {
			strings.Replace(leader, "lag=0", "lag=9", 1), replica, nil,
			handover.GroupBehind, "silent for 9 s", true,
		},
		"replica that synchronizes": {
			leader, strings.Replace(replica, "in_progress:0", "in_progress:1", 1), nil,
			handover.GroupBehind, "redis-1 is not in sync", true,
		},
		"replica on a node that leaves": {
			leader, replica,
			func(r *workload.Request) { r.Peers[0].Stays = false },
			handover.GroupBehind, "does not stay", true,
		},
		"FAILOVER under way for ever": {
			strings.Replace(leader, "no-failover", "waiting-for-sync", 1), replica, nil,
			handover.HandingOver, "executes FAILOVER", true,
		},
		"FAILOVER aborted": {leader, replica, nil, handover.Refused, "has aborted its FAILOVER", false},
		"replica that does not answer": {
			leader, "", nil, handover.GroupBehind, "connect to redis-1: connect: connection refused", true,
		},
		"leader that does not answer": {"", replica, nil, handover.Refused, "connect to redis-0", true},
		"no address":                  {leader, replica, func(r *workload.Request) { r.Pod.IP = "" }, handover.NotLeading, "", true},
		"network of the node": {
			leader, replica, func(r *workload.Request) { r.Pod.HostNetwork = true },
			handover.Refused, "hostNetwork", true,
		},
		"wrong port": {
			leader, replica,
			func(r *workload.Request) { r.Pod.Annotations[workload.PortAnnotation] = "redsi" },
			handover.Invalid, `"redsi"`, true,
		},
		"Secret that may not be read": {
			leader, replica,
			func(r *workload.Request) { r.Pod.Annotations[workload.SecretAnnotation] = "redis" },
			handover.Refused, "is it listed in secrets of the chart?", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes()
				if tt.leader != "" {
					f.servers[leaderAt] = f.answering(plain(text(tt.leader)))
				}
				if tt.replica != "" {
					f.servers[replicaAt] = f.answering(plain(text(tt.replica)))
				}
				r := request()
				if tt.request != nil {
					tt.request(&r)
				}
				start := time.Now()
				answer := f.release(t, r)
				if answer.Outcome != tt.want || !strings.Contains(answer.Message, tt.message) {
					t.Errorf("got %+v, want %s with %q", answer, tt.want, tt.message)
				}
				goes := []handover.Outcome{handover.NotLeading, handover.NoReplica, handover.Invalid}
				if answer.Go != slices.Contains(goes, tt.want) {
					t.Errorf("got %+v", answer)
				}
				if d := time.Since(start); d > 10*time.Second {
					t.Errorf("the answer took %s", d)
				}
				if sent := f.sent(); tt.forbidden && len(sent) > 0 {
					t.Errorf("sent %q", sent)
				}
			})
		})
	}
}

// TestLastCallUsesAnyReplica expects that a last call hands over to a member that leaves soon.
func TestLastCallUsesAnyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, replica := pair()
		f := newFakes()
		f.servers[leaderAt] = f.answering(plain(text(leader)))
		f.servers[replicaAt] = f.answering(plain(text(replica)))
		r := request()
		r.Peers[0].Stays, r.Last = false, true
		f.release(t, r)
		if want := "FAILOVER TO 10.0.0.2 6379 TIMEOUT 5000"; !slices.Contains(f.sent(), want) {
			t.Errorf("sent %q, want %q", f.sent(), want)
		}
	})
}

// TestPreferredReplicaLeads expects that a preferred member is the first target, although another one is ahead.
func TestPreferredReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, replica := pair()
		leader += "slave1:ip=10.0.0.3,port=6379,state=online,offset=90,lag=0\n"
		f := newFakes()
		f.servers[leaderAt] = f.answering(plain(text(leader)))
		f.servers[replicaAt] = f.answering(plain(text(replica)))
		f.servers["10.0.0.3:6379"] = f.answering(plain(text(strings.Replace(replica, "offset:100", "offset:90", 1))))
		r := request()
		preferred := pod("redis-2", "10.0.0.3")
		preferred.Annotations[workload.PreferAnnotation] = "true"
		r.Peers = append(r.Peers, preferred)
		f.release(t, r)
		if want := "FAILOVER TO 10.0.0.3 6379 TIMEOUT 5000"; !slices.Contains(f.sent(), want) {
			t.Errorf("sent %q, want %q", f.sent(), want)
		}
	})
}

// TestHostilePod expects that whatever a pod sends ends within a bounded time and takes bounded memory.
func TestHostilePod(t *testing.T) {
	say := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = conn.Write([]byte(text))
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	for name, serve := range map[string]func(net.Conn){
		"frozen":                     func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"closes":                     func(net.Conn) {},
		"length beyond all memory":   say("$9000000000000000000\r\n"),
		"length of 3 GB":             say("$3000000000\r\n"),
		"array of a billion":         say("*1000000000\r\n"),
		"arrays without an end":      forever("*1\r\n", 0),
		"line without an end":        forever("+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0),
		"lines without an end":       forever("$5\r\nabcde\r\n", 0),
		"slow drip":                  forever("*", 100*time.Millisecond),
		"slow drip of a long string": drip("$1000000\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes()
				f.servers[leaderAt] = func(conn net.Conn) {
					go func() { _, _ = io.Copy(io.Discard, conn) }()
					serve(conn)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				start := time.Now()
				answer := f.release(t, request())
				runtime.ReadMemStats(&after)
				if answer.Go || answer.Outcome != handover.Refused || answer.Message == "" || len(answer.Message) > 400 {
					t.Errorf("got %+v", answer)
				}
				if d := time.Since(start); d > 5*time.Second {
					t.Errorf("the answer took %s", d)
				}
				if grown := after.TotalAlloc - before.TotalAlloc; grown > 5<<20 {
					t.Errorf("allocated %d bytes", grown)
				}
			})
		})
	}
}

// TestHostileReplies expects that replies within the bounds of one take bounded memory, whatever they are made of.
func TestHostileReplies(t *testing.T) {
	const size = resp.MaxBytes - 1024
	repeat := func(line func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(line(i))
		}
		return b.String()
	}
	const node = "a 10.0.0.1:6379@16379 myself,master - 0 0 0 connected 0-1\n"
	for name, replies := range map[string]map[string]string{
		"fields": {"INFO replication": repeat(func(i int) string { return fmt.Sprintf("%x:\r\n", i) })},
		"replicas": {
			"INFO replication": "role:master\r\n" + repeat(func(i int) string { return fmt.Sprintf("slave%d:\r\n", i) }),
		},
		"fields of a replica": {
			"INFO replication": "role:master\r\nslave0:" + repeat(func(i int) string { return fmt.Sprintf("%x=,", i) }),
		},
		"nodes": {"CLUSTER NODES": node + repeat(func(int) string { return "a a a a a a a a\n" })},
		"flags": {"CLUSTER NODES": node + "a a " + repeat(func(int) string { return "," }) + " a a a a a\n"},
		"slots": {"CLUSTER NODES": node + "a a a a a a a a" + repeat(func(int) string { return " a" })},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes()
			f.servers[leaderAt] = f.answering(func(command string) string {
				switch {
				case replies[command] != "":
					return replies[command]
				case command == "INFO server" && replies["CLUSTER NODES"] != "":
					return "redis_mode:cluster\r\n"
				case command == "CLUSTER INFO":
					return "cluster_state:ok\r\n"
				}
				return plain(text("role:master\r\n"))(command)
			})
			f.servers[replicaAt] = f.servers[leaderAt]
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f.release(t, request())
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 5<<20 {
				t.Errorf("allocated %d bytes", grown)
			}
		})
	}
}

func forever(text string, pause time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := conn.Write([]byte(text)); err != nil {
				return
			}
			time.Sleep(pause)
		}
	}
}

func drip(first string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Write([]byte(first))
		forever("a", 100*time.Millisecond)(conn)
	}
}

// TestNamedAddressesAreNotDialled expects connections to pods alone, whatever Redis names.
func TestNamedAddressesAreNotDialled(t *testing.T) {
	for _, replication := range []string{
		"role:slave\nmaster_host:169.254.169.254\nmaster_port:80\nmaster_link_status:up\nmaster_sync_in_progress:0\n",
		"role:master\nslave0:ip=10.9.9.9,port=6379,state=online,offset=1,lag=0\n" +
			"slave1:ip=169.254.169.254,port=80,state=online,offset=1,lag=0\nslave2:ip=kubernetes.default,port=443\n",
		"role:slave\nmaster_host:10.0.0.3\nmaster_port:6379\n", // A pod of the namespace that asks for no hand-over.
	} {
		f := newFakes()
		f.servers[leaderAt] = f.answering(plain(text(replication)))
		r := request()
		other := pod("web-0", "10.0.0.3")
		other.Annotations = nil
		elsewhere := pod("redis-2", "10.0.0.4")
		elsewhere.Namespace = "other"
		r.Peers = append(r.Peers, other, elsewhere)
		f.release(t, r)
		for address := range f.dialled {
			if address != leaderAt && address != replicaAt {
				t.Errorf("dialled %s", address)
			}
		}
		if sent := f.sent(); len(sent) > 0 {
			t.Errorf("sent %q", sent)
		}
	}
}

// TestPasswordIsNotTold expects the user and the password at the pod, and nowhere else.
func TestPasswordIsNotTold(t *testing.T) {
	f := newFakes()
	f.secret, f.inClear = secretOf("s3cret"), true
	f.servers[leaderAt] = f.answering(func(string) string { return "-WRONGPASS invalid username-password pair\r\n" })
	r := request()
	r.Pod.Annotations[workload.SecretAnnotation] = "redis"
	answer := f.release(t, r)
	if answer.Outcome != handover.Refused || !strings.Contains(answer.Message, "AUTH of redis-0: WRONGPASS") {
		t.Errorf("got %+v", answer)
	}
	if strings.Contains(answer.Message, "s3cret") {
		t.Errorf("the message has the password: %s", answer.Message)
	}
	if want := []string{"AUTH drainer s3cret"}; !slices.Equal(f.sent(), want) {
		t.Errorf("sent %q, want %q", f.sent(), want)
	}
}

// TestReleaseEndsWithContext expects an error, and no answer, when the caller's time is over.
func TestReleaseEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes()
		f.servers[leaderAt] = func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		answer, err := f.releaser().Release(ctx, request())
		if err == nil || time.Since(start) > time.Second {
			t.Errorf("got %+v and error %v after %s", answer, err, time.Since(start))
		}
	})
}

// TestTwoPodsWithOneAddress: a pod that has failed may still show the address that another one has now. Each has a
// connection of its own: members are asked at once, and a connection is for one question at a time.
func TestTwoPodsWithOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, replica := pair()
		f := newFakes()
		f.servers[leaderAt] = f.answering(plain(text(leader)))
		f.servers[replicaAt] = f.answering(plain(text(replica)))
		r := request()
		for i := range 6 {
			r.Peers = append(r.Peers, pod(fmt.Sprintf("old-%d", i), "10.0.0.2"))
		}
		f.release(t, r)
	})
}
