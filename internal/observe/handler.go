package observe

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Status is what the probes report.
type Status interface {
	// Ready returns the role of this replica, or an error that says what it still lacks.
	Ready() (role string, err error)
	// Healthy returns an error if only a restart of the process can help.
	Healthy() error
}

// Handler serves the metrics of registry as /metrics, and the status as /healthz (503: restart the process)
// and /readyz.
func Handler(registry *prometheus.Registry, status Status) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, "ok", status.Healthy())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		role, err := status.Ready()
		respond(w, "ready: "+role, err)
	})
	return mux
}

func respond(w http.ResponseWriter, body string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte(body + "\n"))
}

const (
	// mostScrapes is how many answers with metrics are written at the same time.
	mostScrapes = 10
	// mostWaiting is how many connections may be open on which no request is answered, and longestHeader how many bytes a
	// request may have without its body.
	mostWaiting, longestHeader = 500, 16 << 10
)

// Server returns a server of the handler. Anyone who reaches the port may connect, so no client can keep a
// connection by being slow, nor much memory. An answer may take a minute, which is more than monitoring systems wait;
// an idle connection outlasts the usual intervals between two scrapes.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ConnState:         new(waitingConns).changed,
		MaxHeaderBytes:    longestHeader,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
}

// waitingConns are the connections of a server on which no request is answered, the oldest first. If there are too
// many, it closes the oldest. A limit of all connections would keep out the kubelet, whose probes then fail.
type waitingConns struct {
	mu  sync.Mutex
	all []net.Conn
}

// changed is the ConnState of a server.
func (w *waitingConns) changed(conn net.Conn, state http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(c net.Conn) bool { return c == conn })
	if state == http.StateNew || state == http.StateIdle {
		w.all = append(w.all, conn)
	}
	for len(w.all) > mostWaiting {
		_ = w.all[0].Close()
		w.all = slices.Delete(w.all, 0, 1)
	}
}
