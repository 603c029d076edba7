package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The files of a recording, which pictures of the pages are drawn from.
const (
	castFile    = "recording.cast"
	nodeFile    = "node.txt"    // The output of kubectl describe node while a budget blocks the drain.
	metricsFile = "metrics.txt" // The agent's metrics, as promqltest loads them.

	scrapeInterval = time.Second
	margin         = 5 // Scrapes before the drain, and after it.
)

// recordDrain is drainOne, and writes to the folder how the node and the metrics show the drain.
func (e *env) recordDrain(ctx context.Context, folder string) (result, error) {
	started, err := e.agent.WaitLine(ctx, 1, "agent started")
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	s := &scraper{
		url: "http://" + started.Text("listen") + "/metrics", values: map[string][]string{}, scraped: make(chan struct{}),
	}
	ended := make(chan struct{})
	group.Go(func() error { return s.run(ctx, ended) })
	s.wait(ctx, margin)
	var node string
	group.Go(func() (err error) {
		node, err = e.describeBlocked(ctx)
		return err
	})
	r, err := e.drainOne(ctx)
	s.wait(ctx, margin)
	close(ended)
	return r, errors.Join(err, group.Wait(),
		os.WriteFile(filepath.Join(folder, nodeFile), []byte(node), 0o600),
		os.WriteFile(filepath.Join(folder, metricsFile), []byte(s.text()), 0o600))
}

// describeBlocked returns the first output of kubectl describe node in which a condition and an Event name a
// PodDisruptionBudget.
func (e *env) describeBlocked(ctx context.Context) (text string, err error) {
	err = wait.PollUntilContextCancel(ctx, refreshInterval, true, func(ctx context.Context) (bool, error) {
		text, err = e.cluster.Kubectl(ctx, "describe", "node", e.node())
		return strings.Contains(text, " Blocked ") && strings.Contains(text, " EvictionBlocked "), err
	})
	return text, err
}

// scraper records metrics.
type scraper struct {
	url     string
	count   int
	values  map[string][]string // By series, one for each scrape.
	scraped chan struct{}
}

// run scrapes once each interval, until ended is closed.
func (s *scraper) run(ctx context.Context, ended <-chan struct{}) error {
	ticker := time.NewTicker(scrapeInterval)
	defer ticker.Stop()
	for {
		if err := s.scrape(ctx); err != nil {
			return fmt.Errorf("scrape the agent: %w", err)
		}
		select {
		case s.scraped <- struct{}{}:
		default:
		}
		select {
		case <-ticker.C:
		case <-ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wait waits until so many scrapes have ended.
func (s *scraper) wait(ctx context.Context, scrapes int) {
	for range scrapes {
		select {
		case <-s.scraped:
		case <-ctx.Done():
		}
	}
}

// scrape adds the agent's own metrics and its memory, without those of the Go runtime.
func (s *scraper) scrape(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	const missing = "_"
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "node_drainer_") && !strings.HasPrefix(line, "process_resident_memory_bytes") {
			continue
		}
		end := strings.LastIndex(line, " ")
		name, value := line[:end], line[end+1:]
		for len(s.values[name]) < s.count {
			s.values[name] = append(s.values[name], missing)
		}
		s.values[name] = append(s.values[name], value)
	}
	s.count++
	return lines.Err()
}

// text returns the metrics in the notation of promqltest, in which 3x4 stands for five times a 3.
func (s *scraper) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %v\n", scrapeInterval)
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		b.WriteString("  " + name)
		for values := s.values[name]; len(values) > 0; {
			n := 1
			for n < len(values) && values[n] == values[0] {
				n++
			}
			fmt.Fprintf(&b, " %sx%d", values[0], n-1)
			values = values[n:]
		}
		b.WriteString("\n")
	}
	return b.String()
}
