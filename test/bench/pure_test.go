package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParsePeak(t *testing.T) {
	const status = "Name:\tagent\nVmPeak:\t 1264 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n"
	if got := parsePeak(status); got != 2<<20 {
		t.Errorf("got %d", got)
	}
	if got := parsePeak("Name:\tkthreadd\n"); got != 0 {
		t.Errorf("a process without memory has %d", got)
	}
}

func TestParseCPU(t *testing.T) {
	tests := []struct {
		name, stat string
		want       time.Duration
	}{
		{"user and system time", "7 (agent) S 1 7 7 0 -1 0 0 0 0 0 150 25 0 0 20 0", 1750 * time.Millisecond},
		{"a name with all that confuses", "7 (a) S 9) R 1 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0", 30 * time.Millisecond},
		{"a line that is cut", "7 (agent) S 1 7", 0},
		{"nothing", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseCPU([]byte(tt.stat)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWorkloads(t *testing.T) {
	for _, s := range scenarios() {
		for _, scale := range []float64{1, 0.3, 0.01} {
			s := s.scaled(scale)
			total, guarded, names := 0, 0, map[string]bool{}
			for _, w := range s.workloads() {
				total += w.Replicas
				names[w.Name] = true
				if w.Budget != "" {
					guarded += w.Replicas
				}
				if (w.Budget == "0") != (s.Blocked > 0 && w.Budget != "") {
					t.Errorf("%s: budget %q of %s", s.Name, w.Budget, w.Name)
				}
			}
			if total != s.pods() || len(names) != len(s.workloads()) {
				t.Errorf("%s at %v: %d pods in %d Deployments, want %d", s.Name, scale, total, len(names), s.pods())
			}
			if want := s.Guarded * float64(s.pods()); float64(guarded) < want-0.5 || float64(guarded) > want+0.5 {
				t.Errorf("%s at %v: %d pods are behind budgets, want %v", s.Name, scale, guarded, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, args string
		scenarios  string
		err        string
	}{
		{"all is the default", "", "budgets,plain,one,freed,long,memory,memory-x10", ""},
		{"two of them", "-scenario one,budgets", "budgets,one", ""},
		{"memory is two", "-scenario memory", "memory,memory-x10", ""},
		{"an unknown scenario", "-scenario two", "", `"two" of -scenario; known are budgets`},
		{"an unknown contestant", "-contestants karpenter", "", `"karpenter" of -contestants; known are kubectl, agent, limit`},
		{"an argument", "one", "", `unknown argument "one"`},
		{"no rounds", "-rounds 0", "", "at least 1"},
		{"no nodes", "-scale 0", "", "above 0"},
		{"more nodes", "-scale 2", "", "at most 1"},
		{"an unknown flag", "-fast", "", "-fast"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parse(strings.Fields(tt.args), io.Discard)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), "--help") {
					t.Fatalf("got %v, want an error with %q that names --help", err, tt.err)
				}
				return
			}
			var names []string
			for _, s := range o.scenarios {
				names = append(names, s.Name)
			}
			if got := strings.Join(names, ","); err != nil || got != tt.scenarios {
				t.Errorf("got %s, %v, want %s", got, err, tt.scenarios)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var help strings.Builder
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"make bench", "memory-x10", "-contestants", "-json", "a greedy evictor"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("%q is not in the help:\n%s", want, help.String())
		}
	}
}
