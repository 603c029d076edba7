package cli

import (
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// togetherOption reads the phases. The last one of them counts, since each includes those before it.
func togetherOption(s *settings) *option {
	phases := refresh.Phases()
	last := refresh.NoPhase
	return &option{
		name: "together", kind: "PHASE,...", initial: phases[s.Together], values: phases, many: true,
		help: `What is done in all groups before the first instance is replaced; each phase includes those before it.
			None: nothing. Check: the preflights. Taint: outdated nodes are tainted. Surge: the desired capacity is
			raised, and new nodes are Ready.`,
		traits: traits{valueModes: map[string][]refresh.Mode{"surge": {refresh.ModeUnhealthy}}},
		read: func(text string) error {
			phase, known := refresh.ParsePhase(text)
			if !known {
				return errors.New(alternatives(phases))
			}
			last = max(last, phase)
			s.Together = last
			return nil
		},
	}
}

func groupsOptions(s *settings) []*option {
	return []*option{
		togetherOption(s),
		number(into(&s.Parallel), strconv.Itoa(s.Parallel), "parallel-asgs", "N", "Groups at a time. 0 is all.", 0, 1000),
		boolean(&s.FailFast, "fail-fast",
			"Start no further group when one has failed.").whileFollowing(),
	}
}

func maxOptions(s *settings) []*option {
	return []*option{
		boolean(&s.RaiseMax, "raise-max",
			`Raise the maximum size during the rollout if it is too small for the surge, or during trigger rollback
			for instances that leave Standby.`).in(refresh.ModeRefresh, refresh.ModeUnhealthy),
	}
}

func gateOptions(s *settings) []*option {
	return []*option{
		textOption(&s.gate.Command, "gate-command", "COMMAND",
			`Command (sh -c) that must exit with 0 before the first instance of a group, before each batch in mode
			unhealthy, and at each of --checkpoints. GATE_GROUP, GATE_PHASE (start, batch or checkpoint),
			GATE_REPLACED and GATE_TOTAL say how far the group is.`).
			whileFollowing(),
		textOption(&s.gate.URL, "gate-url", "URL",
			"URL that must answer GET with a status of 200 to 299 likewise. Messages name only its host.").
			checked(isURL, "a URL, for example https://example.com/healthy").keptSecret().whileFollowing(),
		duration(into(&s.GateTimeout), shortDuration(s.GateTimeout), "gate-timeout",
			`Time in which a gate must pass. After that nothing further is replaced: a refresh is paused, or
			cancelled or rolled back if --on-interrupt says so.`,
			time.Second, 24*time.Hour),
	}
}

// isURL reports whether the text is an address of a web server.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
