package node

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string // in the error, all at once
	}{
		{"the defaults", defaults, nil},
		{"no waiting for registration", with(late, func(c *Config) { c.RegistrationTimeout = 0 }), nil},
		{"NoExecute", with(off, func(c *Config) { c.TaintEffect = "NoExecute" }), nil},
		{"all unset", Config{}, []string{`NODE_TAINT_KEY is ""`, `NODE_TAINT_EFFECT is ""`, `NODE_EXCLUDE_FROM_LOAD_BALANCERS is ""`}},
		{
			"everything wrong",
			Config{
				TaintKey: "a b", TaintEffect: "Never", ExcludeFromLB: "sometimes", RegistrationTimeout: 2 * time.Hour,
				Selector: "pool in",
			},
			[]string{
				`NODE_SELECTOR is "pool in"`,
				`NODE_TAINT_KEY is "a b"`, `NODE_TAINT_EFFECT is "Never"`,
				`NODE_EXCLUDE_FROM_LOAD_BALANCERS is "sometimes"`, "NODE_REGISTRATION_TIMEOUT is 2h0m0s",
			},
		},
		{"a negative timeout", with(func(c *Config) { c.RegistrationTimeout = -1 }), []string{"NODE_REGISTRATION_TIMEOUT is -1ns"}},
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
