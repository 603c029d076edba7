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
		help: `What is done in all groups before the first instance is replaced; each phase includes those before it. Check:
			the preflights, so that one that is refused keeps all as they are. Taint: outdated nodes are tainted. Surge: the
			desired capacity is raised, and the new nodes are ready. None: each group is checked when its turn comes.`,
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
			`Raise the maximum size of a group during the rollout if it is too small for the surge, or during trigger
			rollback for the instances that leave Standby. It stays raised while the desired capacity needs it. Whether AWS
			exceeds the maximum by itself is not documented.`).in(refresh.ModeRefresh, refresh.ModeUnhealthy),
	}
}

func gateOptions(s *settings) []*option {
	return []*option{
		textOption(&s.gate.Command, "gate-command", "COMMAND",
			`Command of a shell (sh -c) that must exit with 0 for the rollout to continue: before the first instance of a
			group is replaced, before each batch in mode unhealthy, and at each of --checkpoints. Its variables GATE_GROUP,
			GATE_PHASE (start, batch or checkpoint), GATE_REPLACED and GATE_TOTAL say how far the group is.`).
			whileFollowing(),
		textOption(&s.gate.URL, "gate-url", "URL",
			`URL that must answer GET with a status of 200 to 299 in the same way. Redirects to other hosts are not
			followed. With --gate-command, both must pass. Messages name only its host.`).
			checked(isURL, "a URL, for example https://example.com/healthy").keptSecret().whileFollowing(),
		duration(into(&s.GateTimeout), shortDuration(s.GateTimeout), "gate-timeout",
			`Time in which a gate must pass; until then it is tried again every --poll-interval. After that nothing further
			is replaced, and the exit code is 3. A refresh is paused, or cancelled or rolled back if --on-interrupt says so.`,
			time.Second, 24*time.Hour),
	}
}

// isURL reports whether the text is an address of a web server.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
