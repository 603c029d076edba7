package redis_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

const strangerAt = "10.0.0.3:6379"

// secretOf is a Secret with a password and without TLS.
func secretOf(password string) map[string][]byte {
	return map[string][]byte{"username": []byte("drainer"), "password": []byte(password)}
}

// foreign is a pod that has all annotations of the group, and another controller.
func foreign(controllerUID string) workload.Pod {
	p := pod("redis-9", "10.0.0.3")
	p.Controller, p.ControllerUID = "StatefulSet/redis", controllerUID
	return p
}

// TestStrangersAreNotAsked: a pod that only looks like a member gets no connection, and with it no password.
func TestStrangersAreNotAsked(t *testing.T) {
	leader, replica := pair()
	const node = "aaa 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-16383\n" +
		"bbb 10.0.0.2:6379@16379 slave aaa 0 0 1 connected\n"
	for name, tt := range map[string]struct {
		leader, replica func(string) string
		change          func(*workload.Request)
		asked           bool
	}{
		"another StatefulSet of the same name": {plain(text(leader)), plain(text(replica)), nil, false},
		"without a controller": {
			plain(text(leader)), plain(text(replica)),
			func(r *workload.Request) { r.Peers[1].Controller, r.Peers[1].ControllerUID = "", "" }, false,
		},
		"nobody has a controller": {
			plain(text(leader)), plain(text(replica)), func(r *workload.Request) {
				r.Pod.ControllerUID, r.Peers[0].ControllerUID, r.Peers[1].ControllerUID = "", "", ""
			}, false,
		},
		"of a cluster": {inCluster(node, leader), inCluster(node, replica), nil, false},
		"it answers at another port than the replica that the leader lists": {
			plain(text(leader + "slave1:ip=10.0.0.3,port=7000,state=online,offset=100,lag=0\n")), plain(text(replica)), nil, false,
		},
		"the leader lists it": {
			plain(text(leader + "slave1:ip=10.0.0.3,port=6379,state=online,offset=100,lag=0\n")), plain(text(replica)), nil, true,
		},
		"the leader lists its host name": {
			plain(text(leader + "slave1:ip=redis-9.redis,port=6379,state=online,offset=100,lag=0\n")), plain(text(replica)), nil, true,
		},
		"the pod replicates from it": {
			plain(text(strings.Replace(replica, "10.0.0.1", "10.0.0.3", 1))), plain(text(replica)), nil, true,
		},
		"a replica lists it": {
			plain(text(leader)),
			plain(text(replica + "slave0:ip=10.0.0.3,port=6379,state=online,offset=100,lag=0\n")), nil, true,
		},
		"the cluster lists it": {
			inCluster(node+"ccc 10.0.0.3:6379@16379 slave aaa 0 0 1 connected\n", leader), inCluster(node, replica), nil, true,
		},
		"the leader lists it, and it has other annotations": {
			plain(text(leader + "slave1:ip=10.0.0.3,port=6379,state=online,offset=100,lag=0\n")), plain(text(replica)),
			func(r *workload.Request) { r.Peers[1].Annotations[workload.SecretAnnotation] = "other" }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes()
				f.secret, f.inClear = secretOf("s3cret"), true
				f.servers[leaderAt], f.servers[replicaAt] = f.answering(tt.leader), f.answering(tt.replica)
				f.servers[strangerAt] = f.answering(plain(text(replica)))
				r := request()
				r.Peers = append(r.Peers, foreign("other"))
				for _, p := range append(r.Peers, r.Pod) {
					p.Annotations[workload.SecretAnnotation] = "redis"
				}
				if tt.change != nil {
					tt.change(&r)
				}
				f.release(t, r)
				if f.dialled[strangerAt] != tt.asked {
					t.Errorf("dialled %v", slices.Sorted(maps.Keys(f.dialled)))
				}
			})
		})
	}
}

// TestMemberOfAnotherControllerLeads: there may be a StatefulSet for each member.
func TestMemberOfAnotherControllerLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, replica := pair()
		f := newFakes()
		f.servers[leaderAt], f.servers[replicaAt] = f.answering(plain(text(leader))), f.answering(plain(text(replica)))
		r := request()
		r.Peers[0].Controller, r.Peers[0].ControllerUID = "StatefulSet/redis-b", "b"
		f.release(t, r)
		if want := "FAILOVER TO 10.0.0.2 6379 TIMEOUT 5000"; !slices.Contains(f.sent(), want) {
			t.Errorf("sent %q, want %q", f.sent(), want)
		}
	})
}

// TestSentinelsOfTwoControllers are refused before anything is sent to one of them.
func TestSentinelsOfTwoControllers(t *testing.T) {
	leader, replica := pair()
	for name, tt := range map[string]struct {
		controllers [2]string
		refused     bool
	}{
		"one":                   {[2]string{"sentinel", "sentinel"}, false},
		"two":                   {[2]string{"sentinel", "other"}, true},
		"one without":           {[2]string{"sentinel", ""}, true},
		"none has a controller": {[2]string{"", ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes()
				f.servers[leaderAt], f.servers[replicaAt] = f.answering(plain(text(leader))), f.answering(plain(text(replica)))
				f.servers["10.0.0.9:26379"] = f.answering(watching)
				f.servers["10.0.0.8:26379"] = f.servers["10.0.0.9:26379"]
				r := watchedRequest()
				second := r.Peers[1]
				second.Name, second.UID, second.IP = "sentinel-1", "sentinel-1", "10.0.0.8"
				r.Peers = append(r.Peers, second)
				for i, uid := range tt.controllers {
					r.Peers[1+i].ControllerUID = uid
				}
				answer := f.release(t, r)
				reconciled, err := f.releaser().Reconcile(t.Context(), r)
				f.all.Wait()
				isRefused := answer.Outcome == handover.Refused && strings.Contains(answer.Message, "the same controller")
				if isRefused != tt.refused || tt.refused && (answer.Go || reconciled.Go || reconciled.Outcome != handover.Refused) {
					t.Errorf("got %+v, and %+v, %v", answer, reconciled, err)
				}
				for _, address := range []string{"10.0.0.9:26379", "10.0.0.8:26379"} {
					if f.dialled[address] == tt.refused {
						t.Errorf("dialled %v", slices.Sorted(maps.Keys(f.dialled)))
					}
				}
				if tt.refused && len(f.sent()) > 0 {
					t.Errorf("sent %q", f.sent())
				}
			})
		})
	}
}

// TestSentinelInAStrangersPod: without the annotation, the sentinels are containers of the members.
func TestSentinelInAStrangersPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, replica := pair()
		f := newFakes()
		f.servers[leaderAt], f.servers[replicaAt] = f.answering(plain(text(leader))), f.answering(plain(text(replica)))
		f.servers["10.0.0.1:26379"] = f.answering(watching)
		f.servers["10.0.0.2:26379"] = f.servers["10.0.0.1:26379"]
		r := request()
		r.Peers = append(r.Peers, foreign("other"))
		r.Pod.Ports = []workload.Port{{Name: "sentinel", Number: 26379}}
		for i := range r.Peers {
			r.Peers[i].Ports = r.Pod.Ports
		}
		f.release(t, r)
		want := []string{"10.0.0.1:26379", leaderAt, "10.0.0.2:26379", replicaAt}
		if got := slices.Sorted(maps.Keys(f.dialled)); !slices.Equal(got, want) {
			t.Errorf("dialled %q, want %q", got, want)
		}
	})
}

// TestPasswordWithoutTLS is not sent, unless the configuration permits it: no connection is made then.
func TestPasswordWithoutTLS(t *testing.T) {
	leader, replica := pair()
	const redis, sentinel = leaderAt, "10.0.0.9:26379"
	for name, tt := range map[string]struct {
		secret  map[string]string
		inClear bool
		want    string   // in the answer; empty: no refusal
		dialled []string // of the leader and the sentinel
	}{
		"a password": {
			map[string]string{"username": "drainer", "password": "s3cret"},
			false,
			"refuse to send a password to redis-0 without TLS: the Secret has no ca.crt", nil,
		},
		"a password, permitted": {map[string]string{"password": "s3cret"}, true, "", []string{redis, sentinel}},
		"no password":           {map[string]string{"username": "drainer"}, false, "", []string{redis, sentinel}},
		"an empty password":     {map[string]string{"password": ""}, false, "", []string{redis, sentinel}},
		"a password of the sentinels alone": {
			map[string]string{"sentinel-password": "s3cret"}, false, "refuse to send a password to sentinel-0", []string{redis},
		},
		"an empty password of the sentinels": {
			map[string]string{"sentinel-password": ""}, false, "", []string{redis, sentinel},
		},
		"TLS": {
			map[string]string{"password": "s3cret", "ca.crt": "x"}, false, "ca.crt of the Secret has no certificate", []string{redis},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes()
				f.secret, f.inClear = map[string][]byte{}, tt.inClear
				for key, value := range tt.secret {
					f.secret[key] = []byte(value)
				}
				f.servers[redis], f.servers[replicaAt] = f.answering(plain(text(leader))), f.answering(plain(text(replica)))
				f.servers[sentinel] = f.answering(watching)
				r := watchedRequest()
				for _, p := range []workload.Pod{r.Pod, r.Peers[0]} {
					p.Annotations[workload.SecretAnnotation] = "redis"
				}
				answer := f.release(t, r)
				isRefused := strings.Contains(answer.Message, "without TLS") || answer.Outcome == handover.Refused
				if answer.Go || !strings.Contains(answer.Message, tt.want) || isRefused != (tt.want != "") {
					t.Errorf("got %+v", answer)
				}
				for _, address := range []string{redis, sentinel} {
					if f.dialled[address] != slices.Contains(tt.dialled, address) {
						t.Errorf("dialled %v, want %v", slices.Sorted(maps.Keys(f.dialled)), tt.dialled)
					}
				}
				isTold := strings.Contains(strings.Join(f.sent(), "\n"), "s3cret")
				if isTold != tt.inClear {
					t.Errorf("sent %q", f.sent())
				}
			})
		})
	}
}
