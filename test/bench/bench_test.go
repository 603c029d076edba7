//go:build e2e

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// TestMain makes of the test binary what main makes of the program.
func TestMain(m *testing.M) {
	if job := os.Getenv(greedyVariable); job != "" {
		os.Exit(greedyMain(context.Background(), job))
	}
	os.Exit(cluster.Main(m))
}

// TestBench has all contestants drain two nodes of three pods, and asks whether the figures can be true.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	b := &bench{
		options: options{
			scenarios: []scenario{{
				Name: "tiny", Nodes: 2, PodsPerNode: 3, Stop: time.Second, Guarded: 1.0 / 3, Replicas: 2,
			}, {
				Name: "stateful-sentinel", Redis: redisserver.Sentinel, Move: time.Second,
				Contestants: []string{agentName, failoverName},
			}},
			contestants: contestantNames(), rounds: 1, scale: 1, json: filepath.Join(t.TempDir(), "figures.json"),
		},
		log: t.Output(),
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.figures) != len(drainers()) {
		t.Fatalf("there are figures of %d contestants", len(b.figures))
	}
	for i, f := range b.figures {
		t.Run(drainers()[i], func(t *testing.T) { assertPlausible(t, f) })
	}
	if w := b.writes; len(w) != 2 || w[0].Lost > 0 || w[0].Gap == 0 || w[1].Lost == 0 {
		t.Errorf("got %+v; want writes lost by SENTINEL FAILOVER alone", w)
	}
	var text strings.Builder
	if err := b.report(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	for _, row := range append(drainers(), failoverName, "evictions per pod") {
		if !strings.Contains(text.String(), "  "+row+"  ") {
			t.Errorf("the report has no row %s", row)
		}
	}
	if file, err := os.ReadFile(b.json); !json.Valid(file) || !bytes.Contains(file, []byte(`"makespanSeconds"`)) {
		t.Errorf("the figures for programs are %s; %v", file, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func assertPlausible(t *testing.T, f figures) {
	t.Logf("%+v", f)
	holds := map[string]bool{
		"the pods are those of the nodes":              f.Pods == 6 && f.Nodes == 2,
		"a pod stops for a second":                     f.Makespan >= 0.9,
		"it ends":                                      f.Makespan <= f.Finished+lateTimeout.Seconds(),
		"the nodes are marked before they are empty":   f.Marked > 0 && f.Marked < f.Makespan,
		"each pod is evicted":                          f.Evictions-f.Refused >= 6,
		"two of two pods are not evicted at once":      f.Contestant != limitName || f.Refused > 0,
		"each node is marked by a patch":               f.ByKind["patch nodes"] >= 2,
		"evictions are requests":                       f.Requests >= f.Evictions+f.ByKind["patch nodes"],
		"an eviction followed the release of a budget": f.Releases > 0,
	}
	if runtime.GOOS == "linux" {
		holds["it takes processor time"] = f.CPU > 0 && f.CPU < f.Finished*float64(runtime.NumCPU())
		holds["it takes memory"] = f.PeakMiB > 5 && f.SumMiB >= f.PeakMiB
	}
	for what, ok := range holds {
		if !ok {
			t.Errorf("%s: this does not hold of %+v", what, f)
		}
	}
}
