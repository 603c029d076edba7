package drain

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseTiers(t *testing.T) {
	check := func(text string, want ...Tier) {
		t.Helper()
		if got, err := parseTiers(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	check("0", Tier{})
	check("0,2000000000,2000001000", Tier{}, Tier{From: 2_000_000_000}, Tier{From: 2_000_001_000})
	check("0=10m,2000000000", Tier{Bound: 10 * time.Minute}, Tier{From: 2_000_000_000})
	check(" -10 , 0=90s ", Tier{From: -10}, Tier{Bound: 90 * time.Second})
	check("-2147483648,2147483647", Tier{From: -2147483648}, Tier{From: 2147483647})
	for text, want := range map[string]string{
		"":           `priority "": must be a whole number from -2147483648 to 2147483647`,
		"0,":         `priority ""`,
		"0,critical": `priority "critical": must be a whole number`,
		"2147483648": `priority "2147483648": must be a whole number from`,
		"0,0":        "priorities must ascend: 0 comes after 0",
		"0,10,5":     "priorities must ascend: 5 comes after 10",
		"0=10":       `duration "10": must be positive and have a unit, for example 90s or 15m`,
		"0=":         `duration "": must be positive`,
		"0=0s":       `duration "0s": must be positive`,
		"0=-1m":      `duration "-1m": must be positive`,
	} {
		if _, err := parseTiers(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string // the mistakes, all at once
	}{
		{name: "the defaults", cfg: defaults},
		{name: "selectors", cfg: withConfig(func(c *Config) { c.WaitSelector = "app in (a, b),!c" })},
		{name: "all unset", want: []string{
			`DRAIN_TIERS is "": priority "": must be a whole number from -2147483648 to 2147483647`,
		}},
		{name: "namespaces", cfg: withConfig(func(c *Config) { c.AnnotationNamespaces, c.WaitNamespaces = "batch, research", "none" })},
		{name: "everything wrong", cfg: Config{
			Tiers: "0,0", WaitSelector: "app in", WaitNamespaces: "a;b", AnnotationNamespaces: "a,B",
		}, want: []string{
			`DRAIN_TIERS is "0,0": priorities must ascend`,
			`DRAIN_WAIT_SELECTOR is "app in": `,
			`DRAIN_WAIT_NAMESPACES is "a;b": no namespace can have the name "a;b"`,
			`DRAIN_ANNOTATION_NAMESPACES is "a,B": no namespace can have the name "B"`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %d mistakes", got, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got  %s\nwant %s", got[i], want)
				}
			}
		})
	}
}
