package refresh

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestLaunchedFromTheTarget: an instance that was launched from the target is current, and outdated as soon as one
// property differs.
func TestLaunchedFromTheTarget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5000) {
		dice := rand.New(rand.NewPCG(seed, 0))
		g := Group{Source: anySource(dice)}
		version := pick(dice, "", "", "3", "$Latest", "$Default")
		if g.Source.Configuration != "" {
			version = ""
		}
		target := known().Resolve(g, version)
		if target.Problem != "" {
			t.Fatalf("seed %d: %s", seed, target.Problem)
		}
		i := launch(dice, target.Source)
		judge := func() Verdict { return judged(g, i, Criteria{Version: version}) }
		if got := judge(); got.Outdated {
			t.Fatalf("seed %d: %+v from %s is outdated: %+v", seed, i, target.Text, got)
		}
		switch {
		case i.Template == nil:
			i.Configuration += "x"
		case dice.IntN(2) == 0:
			i.Template.ID += "x"
		default:
			i.Template.Version = "99"
		}
		if got := judge(); !got.Outdated {
			t.Fatalf("seed %d: %+v from %s is current", seed, i, target.Text)
		}
	}
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

func anyTemplate(dice *rand.Rand) *Template {
	s := *pick(dice, node(""), template("lt-2", "gpu", ""), template("", "alias", ""))
	s.Version = pick(dice, "", "$Latest", "$Default", "1", "2", "7")
	return &s
}

func anySource(dice *rand.Rand) Source {
	switch dice.IntN(4) {
	case 0:
		return Source{Configuration: "lc"}
	case 1:
		return Source{Template: anyTemplate(dice)}
	}
	m := Mixed{Template: *anyTemplate(dice)}
	for n := range dice.IntN(4) {
		o := Override{Type: fmt.Sprint("type-", dice.IntN(3)), Requirements: dice.IntN(4) == 0}
		if o.Requirements {
			o.Type = ""
		}
		if dice.IntN(2) == 0 {
			o.Template = anyTemplate(dice)
		}
		if dice.IntN(3) == 0 {
			o.ImageID = "ami-own-" + strconv.Itoa(n)
		}
		m.Overrides = append(m.Overrides, o)
	}
	return Source{Mixed: &m}
}

// launch returns an instance that was launched from the resolved source.
func launch(dice *rand.Rand, s Source) Instance {
	i := instance(launchedFrom(nil))
	switch {
	case s.Configuration != "":
		i.Configuration = s.Configuration
	case s.Template != nil:
		copied := *s.Template
		i.Template = &copied
	default:
		copied := s.Mixed.Template
		if len(s.Mixed.Overrides) > 0 {
			o := pick(dice, s.Mixed.Overrides...)
			i.Type, i.ImageID = o.Type, o.ImageID
			if o.Template != nil {
				copied = *o.Template
			}
		}
		i.Template = &copied
	}
	return i
}
