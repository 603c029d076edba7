package observe

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Status is what the pages for probes tell.
type Status interface {
	// Ready returns the replica's role, or what is still missing before it can take its part.
	Ready() (role string, err error)
	// Healthy returns what only a new process can help.
	Healthy() error
}

// Handler serves /metrics of registry, and the status as /healthz (503: start the process anew) and /readyz.
func Handler(registry *prometheus.Registry, status Status) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "ok", status.Healthy())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		role, err := status.Ready()
		answer(w, "ready: "+role, err)
	})
	return mux
}

func answer(w http.ResponseWriter, good string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte(good + "\n"))
}
