package awsim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// admin is the HTTP surface under /_awsim/.
type admin struct{ *Server }

// adminRoutes is what a program outside the test's process can do with the server. It needs no
// signature.
func (s admin) adminRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /_awsim/faults", s.adminInject)
	mux.HandleFunc("DELETE /_awsim/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.faults.clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /_awsim/ledger", func(w http.ResponseWriter, _ *http.Request) {
		adminAnswer(w, s.Ledger())
	})
	mux.HandleFunc("GET /_awsim/requests", func(w http.ResponseWriter, _ *http.Request) {
		adminAnswer(w, s.Requests())
	})
	mux.HandleFunc("POST /_awsim/queues/{name}/messages", s.adminSend)
	mux.HandleFunc("/_awsim/", http.NotFound)
}

// adminFault is a Fault in JSON, its latency in words: {"Service":"sqs","Status":500,"Latency":"2s"}.
type adminFault struct {
	Fault
	Latency string
}

func (s admin) adminInject(w http.ResponseWriter, r *http.Request) {
	var in adminFault
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&in)
	if err == nil && in.Latency != "" {
		in.Fault.Latency, err = time.ParseDuration(in.Latency)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("not a fault: %v", err), http.StatusBadRequest)
		return
	}
	s.Inject(in.Fault)
	w.WriteHeader(http.StatusNoContent)
}

func (s admin) adminSend(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := s.sqs.deliver(s.sqs.url(r.PathValue("name")), string(body))
	if err != nil {
		failure := asError(err)
		http.Error(w, failure.Error(), failure.Status)
		return
	}
	adminAnswer(w, map[string]string{"MessageId": id})
}

func adminAnswer(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, "application/json", newID(), http.StatusOK, append(body, '\n'))
}
