package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// pollInterval is the time between two looks at what cannot be watched.
const pollInterval = 50 * time.Millisecond

// Eventually calls wrong until it returns "", and returns the last answer as an error when ctx ends first.
func Eventually(ctx context.Context, wrong func() string) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		what := wrong()
		if what == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// Pages reads the HTTP pages of an agent.
type Pages struct{ agent *Process }

// Get returns the status and the body of one of an agent's pages, as soon as the agent listens.
func (p Pages) Get(ctx context.Context, path string) (status int, body string, err error) {
	started, err := p.agent.WaitLine(ctx, 1, "agent started")
	if err != nil {
		return 0, "", err
	}
	return Page(ctx, started.Text("listen"), path)
}

// Page returns the status and the body of a page of the program that listens on the address.
func Page(ctx context.Context, address, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Metric returns the value of an agent's counter or gauge that has the label value as its only one, or no
// label if that is "".
func (p Pages) Metric(ctx context.Context, name, label string) (float64, error) {
	_, body, err := p.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("read /metrics: %w", err)
	}
	for _, m := range families[name].GetMetric() {
		if label == "" || (len(m.Label) == 1 && m.Label[0].GetValue() == label) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue(), nil
		}
	}
	return 0, fmt.Errorf("there is no metric %s %s", name, strconv.Quote(label))
}

// WaitReady waits until the agent is ready. It fails at once if the agent exits.
func (p Pages) WaitReady(ctx context.Context) error { return p.WaitReadyz(ctx, http.StatusOK, "") }

// WaitReadyz waits until the agent's /readyz has the status and contains the text. It fails at once if the
// agent exits.
func (p Pages) WaitReadyz(ctx context.Context, status int, text string) error {
	ctx, stop := p.agent.WhileRunning(ctx)
	defer stop()
	err := Eventually(ctx, func() string {
		got, body, err := p.Get(ctx, "/readyz")
		if err != nil {
			return err.Error()
		}
		if got != status || !strings.Contains(body, text) {
			return fmt.Sprintf("/readyz is %d: %s; want %d and %q", got, body, status, text)
		}
		return ""
	})
	if err != nil {
		return fmt.Errorf("wait for the agent's /readyz: %w", err)
	}
	return nil
}
