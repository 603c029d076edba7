package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
)

// history shows the records of drains. It uses Kubernetes only.
func (e *executor) history(ctx context.Context, r report.Reporter) error {
	client, err := e.kubernetesClient()
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	var drains []history.Drain
	if namespace, name := e.historyConfigMap(); name != "" {
		drains, err = history.Read(ctx, client, namespace, name)
	} else {
		drains, err = history.Find(ctx, client)
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, e.historyHint(err))
	}
	subject := e.settings.subject
	shown := drains
	if subject != "" {
		shown = slices.DeleteFunc(slices.Clone(drains), func(d history.Drain) bool {
			return d.Node != subject && d.Instance != subject
		})
	}
	if subject != "" && len(shown) == 0 {
		return noRecord(subject, drains)
	}
	if r.History(shown, subject != ""); r.Err() != nil {
		return fmt.Errorf("write the history: %w", r.Err())
	}
	return e.summarize(report.HistorySummary(shown))
}

// historyConfigMap returns where the records are: as the flag says, or as the agent is told in whose pod this runs. The
// name is empty if neither says so.
func (e *executor) historyConfigMap() (namespace, name string) {
	if e.settings.configMap != "" {
		namespace, name, _ = strings.Cut(e.settings.configMap, "/")
		return namespace, name
	}
	return e.podNamespace(), e.environ["HISTORY_CONFIGMAP"]
}

// historyHint says what the user can do about records that cannot be read; else it is empty.
func (e *executor) historyHint(err error) string {
	var several history.SeveralError
	switch {
	case errors.As(err, &several):
		return "; choose one with --configmap"
	case history.IsMissing(err):
		return "; the agent keeps records if the chart's value history.enabled is true and config.dryRun is not. " +
			"--configmap NAMESPACE/NAME reads another one"
	case apierrors.IsForbidden(err) && e.podNamespace() != "" && e.environ["HISTORY_CONFIGMAP"] == "":
		return "; HISTORY_CONFIGMAP is not set in this pod: the chart's value history.enabled sets it for the agent"
	case apierrors.IsForbidden(err):
		return "; name the ConfigMap that you may get with --configmap NAMESPACE/NAME, or run this in the agent's pod, " +
			"which may: kubectl -n kube-system exec deployment/node-drainer -- /trigger history"
	}
	return ""
}

// noRecord says that no drain of the subject is recorded, and how far the records go back.
func noRecord(subject string, drains []history.Drain) error {
	if len(drains) == 0 {
		return fmt.Errorf("no drain of %s is recorded: there are no records yet", subject)
	}
	return fmt.Errorf("no drain of %s is recorded: there are records of %s, since %s; the log of the agent may go "+
		"further back", subject, text.Count(len(drains), "drain"), report.Stamp(drains[len(drains)-1].Began))
}
