//go:build e2e

package main

import (
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/etcdserver"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// fixture is a real etcd, whose pods an API server lists that knows nothing else. Each pod is on a node of its own.
type fixture struct {
	*etcdserver.Cluster
	t       *testing.T
	service service
	unknown *etcdserver.Member // It has no pod.
	deleted *etcdserver.Member // Its pod is being deleted.
}

func newFixture(t *testing.T, members int) *fixture {
	t.Helper()
	cluster, err := etcdserver.Start(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{Cluster: cluster, t: t, service: service{t.TempDir(), "app=etcd"}}
	api := httptest.NewTLSServer(http.HandlerFunc(f.list))
	t.Cleanup(api.Close)
	host, port, _ := net.SplitHostPort(api.Listener.Addr().String())
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	for name, text := range map[string]string{"token": "secret", "namespace": "shop", "ca.crt": string(authority)} {
		if err := os.WriteFile(filepath.Join(f.service.account, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// list is the API server.
func (f *fixture) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.String() != "/api/v1/namespaces/shop/pods?labelSelector=app%3Detcd" || r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, r.URL.String(), http.StatusForbidden)
		return
	}
	pods := []*member{}
	for _, m := range f.Members {
		if m == f.unknown {
			continue
		}
		p := &member{}
		p.Metadata.Name, p.Metadata.UID, p.Spec.NodeName, p.Status.PodIP = m.Name, "uid-of-"+m.Name, "node-of-"+m.Name, m.IP
		if m == f.deleted {
			p.Metadata.DeletionTimestamp = "2026-01-02T03:04:05Z"
		}
		pods = append(pods, p)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": pods})
}

// ask asks whether the pod of a member may be evicted while some others leave, too.
func (f *fixture) ask(m *etcdserver.Member, last bool, leaving ...*etcdserver.Member) (status int, text string) {
	f.t.Helper()
	q := question{UID: "uid-of-" + m.Name, Last: last, Leaving: []string{"node-of-" + m.Name}}
	for _, l := range leaving {
		q.Leaving = append(q.Leaving, "node-of-"+l.Name)
	}
	body, err := json.Marshal(q)
	if err != nil {
		f.t.Fatal(err)
	}
	w, begin := httptest.NewRecorder(), time.Now()
	f.service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hand-over", strings.NewReader(string(body))))
	if d := time.Since(begin); d > callTimeout+time.Second {
		f.t.Errorf("the call took %s", d)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

// expect expects an answer.
func (f *fixture) expect(m *etcdserver.Member, last bool, wantStatus int, want string, leaving ...*etcdserver.Member) {
	f.t.Helper()
	if status, text := f.ask(m, last, leaving...); status != wantStatus || !strings.Contains(text, want) {
		f.t.Errorf("%s: got %d, %s, want %d, %s", m.Name, status, text, wantStatus, want)
	}
}

// roles returns the member that leads, and the others.
func (f *fixture) roles() (leader *etcdserver.Member, others []*etcdserver.Member) {
	f.t.Helper()
	leader, err := f.Leader(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	others = slices.DeleteFunc(slices.Clone(f.Members), func(m *etcdserver.Member) bool { return m == leader })
	return leader, others
}

// TestHandOver: the leadership moves to a member that stays, whichever that is, and no write is lost.
func TestHandOver(t *testing.T) {
	f := newFixture(t, 3)
	w := redisserver.Write(t.Context(), func() redisserver.Client { return f.Client() }, "key:")
	for range 2 {
		leader, others := f.roles()
		for i, stays := range slices.Concat(others, []*etcdserver.Member{leader}) {
			leader, others := f.roles()
			leaves := slices.DeleteFunc(others, func(m *etcdserver.Member) bool { return m == stays })
			f.expect(leader, false, http.StatusOK, `"outcome":"handed-over","leader":"`+stays.Name+`"`, leaves...)
			if now, _ := f.roles(); now != stays {
				t.Fatalf("hand-over %d: %s leads, want %s", i, now.Name, stays.Name)
			}
			f.expect(leader, false, http.StatusOK, `"outcome":"not-leading"`, leaves...)
			f.expect(leaves[0], false, http.StatusOK, `"outcome":"not-leading"`, leader)
		}
	}
	report, err := w.Stop(t.Context())
	t.Log(report)
	if err != nil || report.Acknowledged == 0 || report.Lost > 0 {
		t.Errorf("got %s, %v", report, err)
	}
}

// TestGroupBehind: no member leaves while another one is not fine, apart from the last call.
func TestGroupBehind(t *testing.T) {
	f := newFixture(t, 3)
	leader, others := f.roles()
	bad, good := others[0], others[1]

	f.expect(leader, false, http.StatusAccepted, "no other member is on a node that stays", bad, good)
	f.deleted = bad
	f.expect(leader, false, http.StatusAccepted, bad.Name+" is being deleted")
	f.expect(good, false, http.StatusAccepted, bad.Name+" is being deleted")
	f.deleted, f.unknown = nil, bad
	f.expect(leader, false, http.StatusAccepted, "member "+bad.Name+" does not answer")
	f.unknown = nil
	bad.Freeze()
	f.expect(leader, false, http.StatusAccepted, bad.Name+" does not answer")
	f.expect(good, false, http.StatusAccepted, bad.Name+" does not answer")
	f.expect(bad, false, http.StatusServiceUnavailable, "cluster/member/list")
	f.expect(leader, true, http.StatusOK, `"leader":"`+good.Name+`"`, good)
	good.Freeze()
	f.expect(leader, false, http.StatusServiceUnavailable, "cluster/member/list") // no majority
	good.Thaw()
	bad.Thaw()
}

// TestOnlyMember: nobody can take over from it.
func TestOnlyMember(t *testing.T) {
	f := newFixture(t, 1)
	f.expect(f.Members[0], false, http.StatusOK, `"outcome":"no-replica"`)
	f.expect(&etcdserver.Member{Name: "gone"}, false, http.StatusOK, `"outcome":"not-leading","message":"the pod is gone"`)
	f.service.selector = "app=other"
	f.expect(f.Members[0], false, http.StatusServiceUnavailable, "403 Forbidden")
	w := httptest.NewRecorder()
	f.service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hand-over", strings.NewReader("[]")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("got %d for what is no question", w.Code)
	}
}
