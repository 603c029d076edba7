package main

import (
	"io"
	"math"
	"strings"
	"testing"
)

func TestWorkloads(t *testing.T) {
	for _, s := range scenarios() {
		for _, scale := range []float64{1, 0.3, 0.01} {
			s := s.scaled(scale)
			total, guarded := 0, 0.0
			for _, w := range s.workloads() {
				total += w.Replicas
				if w.Budget != "" {
					guarded += float64(w.Replicas)
				}
				if (w.Budget == "0") != (s.Blocked > 0 && w.Budget != "") {
					t.Errorf("%s: budget %q of %s", s.Name, w.Budget, w.Name)
				}
			}
			if want := s.Guarded * float64(s.pods()); total != s.pods() || math.Abs(guarded-want) > 0.5 {
				t.Errorf("%s at %v: %d pods, want %d; %v have a budget, want %v", s.Name, scale, total, s.pods(), guarded, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for args, want := range map[string]string{ // the scenarios, or a part of the error
		"":                       "budgets,plain,one,freed,long,memory,memory-x10,thousand,stateful-sentinel,stateful-cluster,stateful-plain",
		"-scenario one,budgets":  "budgets,one",
		"-scenario memory":       "memory,memory-x10",
		"-scenario two":          `"two" of -scenario; known are budgets`,
		"-contestants karpenter": `"karpenter" of -contestants; known are kubectl, agent, limit, unannotated, failover`,
		"one":                    `unknown argument "one"`,
		"-rounds 0":              "at least 1",
		"-scale 0":               "above 0",
		"-scale 2":               "at most 1",
		"-fast":                  "-fast",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		var names []string
		for _, s := range o.scenarios {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, ","); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v, want %s", args, got, err, want)
		}
	}
}
