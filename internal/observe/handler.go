package observe

import (
	"net/http"
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
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
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

// Server returns a server of the handler. Anyone who reaches the port may connect, so no client can keep a
// connection by being slow. An answer may take a minute, which is more than monitoring systems wait; an idle
// connection outlasts the usual intervals between two scrapes.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
}
