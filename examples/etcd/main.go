// Command etcd is an example of a Service that has pods hand over: the members of an etcd cluster. It uses the standard
// library only. It may list the pods of its namespace, and speaks HTTP without TLS with etcd.
//
// It promises:
//
//   - A majority remains. While another member does not answer, is being deleted, is a learner or lags behind, the
//     answer is 202 group-behind.
//   - A leader leaves when another member leads, on a node that stays. etcd keeps each write that it has acknowledged.
//     One that is under way may get no answer: clients repeat it after a timeout of their own. Without the example,
//     etcd would move the leadership after SIGTERM, to any member: maybe to the one that has to leave next.
//   - If nobody can take over yet, the answer is 202 group-behind. At the last call, a member on a node that leaves may
//     lead, too. For the only member the answer is 200 no-replica.
//   - It remembers nothing. Each call begins with what etcd says now: when the leadership has moved, by an earlier call
//     or by itself, the answer is 200 not-leading, and so it is when the pod is gone.
//   - A call ends within 8 s, a request to a member within 2 s. Failures are 503: the agent asks again.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"slices"
	"time"
)

const callTimeout = 8 * time.Second

// service has the members of one namespace hand over.
type service struct {
	account  string // the folder of the ServiceAccount
	selector string // the label selector of the members
}

// question is what the example needs of the body of a request.
type question struct {
	UID     string   // of the pod
	Last    bool     // No other call follows.
	Leaving []string // nodes
}

// answer is the status and the body of a response.
type answer struct {
	status  int
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	Leader  string `json:"leader,omitempty"` // the pod that leads now
}

func main() {
	var s service
	listen := flag.String("listen", ":8008", "address to listen at")
	flag.StringVar(&s.account, "account", "/var/run/secrets/kubernetes.io/serviceaccount", "folder of the ServiceAccount")
	flag.StringVar(&s.selector, "members", "app=etcd", "label selector of the members' pods")
	flag.Parse()
	http.Handle("POST /hand-over", s)
	log.Fatal((&http.Server{Addr: *listen, ReadTimeout: callTimeout}).ListenAndServe())
}

func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	var q question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := s.handOver(ctx, q)
	log.Printf("pod %s: %+v, %v", q.UID, a, err)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a)
}

// handOver answers whether a pod may be evicted. A leader hands over before.
func (s service) handOver(ctx context.Context, q question) (answer, error) {
	self, others, err := s.members(ctx, q.UID)
	switch {
	case err != nil:
		return answer{}, err
	case self == nil:
		return answer{http.StatusOK, "not-leading", "the pod is gone", ""}, nil
	case len(others) == 0:
		return answer{http.StatusOK, "no-replica", "it is the only member", ""}, nil
	}
	var next *member
	for _, m := range others {
		problem := m.problem(self)
		switch {
		case problem != "" && !q.Last:
			return answer{http.StatusAccepted, "group-behind", m.Metadata.Name + " " + problem, ""}, nil
		case problem != "":
		case !slices.Contains(q.Leaving, m.Spec.NodeName), q.Last && next == nil:
			next = m
		}
	}
	switch {
	case self.Leader != self.Header.ID:
		return answer{http.StatusOK, "not-leading", "", ""}, nil
	case next == nil:
		return answer{http.StatusAccepted, "group-behind", "no other member is on a node that stays", ""}, nil
	}
	if err := self.etcd(ctx, "maintenance/transfer-leadership", body{"targetID": next.Header.ID}, &body{}); err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, "handed-over", "", next.Metadata.Name}, nil
}
