package node

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string // in the error, all at once
	}{
		{"the defaults", defaults, nil},
		{"all unset", Config{}, []string{`NODE_TAINT_KEY is ""`}},
		{
			"everything wrong",
			Config{TaintKey: "a b", Selector: "pool in", TaintEffect: "PreferNoSchedule"},
			[]string{`NODE_SELECTOR is "pool in"`, `NODE_TAINT_KEY is "a b"`, "NODE_CORDON is false"},
		},
		{"a soft taint on a cordoned node", Config{TaintKey: "a", TaintEffect: "PreferNoSchedule", Cordon: true}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if err != nil && strings.Count(err.Error(), "\n")+1 != len(tt.want) {
				t.Errorf("got %q, want %d mistakes", err, len(tt.want))
			}
		})
	}
}
