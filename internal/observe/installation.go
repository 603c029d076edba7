package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type installationMetrics struct{ problems *prometheus.GaugeVec }

func newInstallationMetrics(r promauto.Factory) installationMetrics {
	return installationMetrics{gauges(r, "installation_problems",
		"Problems that the last check of the installation found, by status.", "status", problemStatuses())}
}

// The values of the label of installation_problems.
const (
	problemWarning = "warning"
	problemFailed  = "failed"
)

func problemStatuses() []string { return []string{problemWarning, problemFailed} }

// InstallationProblem records what a check of the installation found wrong, and which command fixes it. If it failed,
// the agent misses terminations or cannot drain.
func (o *Observer) InstallationProblem(check, found, fix string, failed bool) {
	status := problemWarning
	if failed {
		status = problemFailed
	}
	o.log.Warn().Str("check", check).Str("status", status).Str("found", found).Str("fix", fix).Msg("installation problem")
}

// InstallationChecked records how many problems a check of the installation found: all of them replace those before.
func (o *Observer) InstallationChecked(warnings, failed int) {
	o.metrics.problems.WithLabelValues(problemWarning).Set(float64(warnings))
	o.metrics.problems.WithLabelValues(problemFailed).Set(float64(failed))
	o.log.Info().Int("warnings", warnings).Int("failed", failed).Msg("installation checked")
}

// InstallationUnchecked records that this replica no longer checks the installation.
func (o *Observer) InstallationUnchecked() {
	for _, status := range problemStatuses() {
		o.metrics.problems.WithLabelValues(status).Set(0)
	}
}
