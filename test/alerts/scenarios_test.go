package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// series are values by the minute, by metric, instance and labels; in the notation of promqltest, where 0+1x59
// is an hour that begins with 0 and grows by 1 each minute.
type series map[string]string

// nowAndThen is a counter of what happens once in five minutes.
const nowAndThen = "0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4 11x4"

// healthy is an hour of two replicas that have drained a node and launched one each minute.
func healthy() series {
	s := series{
		`leader{instance="a"}`: "1x59", `leader{instance="b"}`: "0x59",
		`leader_transitions_total{instance="b"}`: "1x59", `messages_lost_total{instance="a"}`: "0x59",
		`step_retries_total{instance="a"}`:                             nowAndThen,
		`pods_total{instance="a",action="evicted"}`:                    "0+1x59",
		`pods_waiting{instance="a",reason="blocked-by-budget"}`:        "3x20 0x38",
		`pods_waiting{instance="a",reason="misconfigured-budget"}`:     "0x59",
		`pods_waiting{instance="a",reason="later-tier"}`:               "9x59",
		`pods_forced_total{instance="a",reason="deadline"}`:            "0x59",
		`pods_forced_total{instance="a",reason="unhealthy"}`:           "0+1x59",
		`terminations_total{instance="a",outcome="drained"}`:           "0+1x59",
		`terminations_total{instance="a",outcome="left-behind"}`:       "0x59",
		`terminations_total{instance="a",outcome="cut-short"}`:         "0x59",
		`terminations_total{instance="a",outcome="unconfirmed"}`:       "0x59",
		`launches_total{instance="a",outcome="ready"}`:                 "0+1x59",
		`launches_total{instance="a",outcome="unconfirmed"}`:           "0x59",
		`launches_total{instance="a",outcome="abandoned"}`:             "0x59",
		`launches_total{instance="a",outcome="continued"}`:             "0x59",
		`messages_refused_total{instance="a",reason="malformed"}`:      "0x59",
		`messages_refused_total{instance="a",reason="unknown-source"}`: "0x59",
		`api_errors_total{instance="a",api="autoscaling"}`:             nowAndThen,
		`api_errors_total{instance="a",api="kubernetes"}`:              nowAndThen,
	}
	return s
}

func (s series) with(more series) series {
	maps.Copy(s, more)
	return s
}

// load is the series for promqltest, under the labels that the ServiceMonitor gives them.
func (s series) load() string {
	var b strings.Builder
	b.WriteString("load 1m\n")
	for _, name := range slices.Sorted(maps.Keys(s)) {
		metric, own, _ := strings.Cut(name, "{")
		fmt.Fprintf(&b, "  node_drainer_%s{namespace=\"agents\",job=\"node-drainer\",%s %s\n", metric, own, s[name])
	}
	return b.String()
}

// minute names the alerts that fire after so many minutes.
type minute struct {
	after int
	fires []string
}

// scenario is an hour of metrics, and the alerts that fire in it.
type scenario struct {
	name   string
	series series
	want   []minute
}

func scenarios() []scenario {
	always := func(names ...string) []minute {
		var all []minute
		for after := range 60 {
			all = append(all, minute{after, names})
		}
		return all
	}
	fires := func(from int, name string) []minute { return []minute{{from - 1, nil}, {from, []string{name}}} }
	// A caller pauses for up to 15 s between two tries, and each may take the half minute of a receive.
	const refused, unanswered = "0x9 0+4x49", "0x9 0+1.2x49"
	gone := series{`leader{instance="a"}`: "1x9 stale", `leader{instance="b"}`: "0x9 stale"}
	return []scenario{
		{"all is well", healthy(), always()},
		{"no agent is scraped", healthy().with(gone), fires(15, "NodeDrainerAbsent")},
		{"no leader", healthy().with(series{`leader{instance="a"}`: "1x9 0x49"}), fires(12, "NodeDrainerNoLeader")},
		{
			"the other leads within a minute",
			healthy().with(series{`leader{instance="a"}`: "1x9 0x49", `leader{instance="b"}`: "0x10 1x48"}), always(),
		},
		{"two lead", healthy().with(series{`leader{instance="b"}`: "0x9 1x49"}), fires(12, "NodeDrainerTwoLeaders")},
		{
			"the leader changes each ten minutes",
			healthy().with(series{`leader_transitions_total{instance="b"}`: "1x9 2x9 3x9 4x9 5x9 6x9"}),
			[]minute{{15, nil}, {50, []string{"NodeDrainerLeaderChanges"}}},
		},
		{
			"calls fail", healthy().with(series{`api_errors_total{instance="a",api="autoscaling"}`: "0x9 0+30x49"}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerCallsFail"}}},
		},
		{
			"one caller is always refused", healthy().with(series{`api_errors_total{instance="a",api="sqs"}`: refused}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerCallsFail"}}},
		},
		{
			"one caller never gets an answer",
			healthy().with(series{`api_errors_total{instance="a",api="sqs"}`: unanswered}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerCallsFail"}}},
		},
		{
			"calls have failed for eight minutes",
			healthy().with(series{`api_errors_total{instance="a",api="autoscaling"}`: "0x9 0+30x8 240x40"}), always(),
		},
		{
			"one step is always refused", healthy().with(series{`step_retries_total{instance="a"}`: refused}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerStepsFail"}}},
		},
		{
			"one step never gets an answer", healthy().with(series{`step_retries_total{instance="a"}`: unanswered}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerStepsFail"}}},
		},
		{
			"steps have failed for eight minutes",
			healthy().with(series{`step_retries_total{instance="a"}`: "0x9 0+30x8 240x40"}), always(),
		},
		{
			"a budget never allows",
			healthy().with(series{`pods_waiting{instance="a",reason="misconfigured-budget"}`: "0x9 2x49"}),
			fires(15, "NodeDrainerBudgetNeverAllows"),
		},
		{
			"pods are held, and none is evicted",
			healthy().with(series{
				`pods_waiting{instance="a",reason="blocked-by-budget"}`: "0x9 2x49",
				`pods_total{instance="a",action="evicted"}`:             "7x59",
			}), fires(40, "NodeDrainerPodsBlocked"),
		},
		{
			"pods are held after the last eviction",
			healthy().with(series{
				`pods_waiting{instance="a",reason="blocked-by-budget"}`: "3x59",
				`pods_total{instance="a",action="evicted"}`:             "0+1x10 10x48",
			}),
			[]minute{{40, nil}, {45, []string{"NodeDrainerPodsBlocked"}}},
		},
		{
			"a rollout of an hour moves pod after pod",
			healthy().with(series{`pods_waiting{instance="a",reason="blocked-by-budget"}`: "3x59"}), always(),
		},
		{
			"a rollout of an hour moves a pod each twenty minutes",
			healthy().with(series{
				`pods_waiting{instance="a",reason="blocked-by-budget"}`: "3x59",
				`pods_total{instance="a",action="evicted"}`:             "0x9 1x19 2x19 3x9",
			}), always(),
		},
		{
			"pods were forced", healthy().with(series{`pods_forced_total{instance="a",reason="deadline"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerPodsForced"), minute{40, nil}),
		},
		{
			"pods were left behind",
			healthy().with(series{`terminations_total{instance="a",outcome="left-behind"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerPodsLeftBehind"), minute{40, nil}),
		},
		{
			"a hook timed out before the drain had ended",
			healthy().with(series{`terminations_total{instance="a",outcome="cut-short"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerDrainsCutShort"), minute{45, nil}),
		},
		{
			"a termination was made up",
			healthy().with(series{`terminations_total{instance="a",outcome="unconfirmed"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerUnconfirmedMessages"),
		},
		{
			"a launch was made up",
			healthy().with(series{`launches_total{instance="a",outcome="unconfirmed"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerUnconfirmedMessages"),
		},
		{
			"messages are no events",
			healthy().with(series{`messages_refused_total{instance="a",reason="malformed"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerMessagesRefused"),
		},
		{
			"messages are lost", healthy().with(series{`messages_lost_total{instance="a"}`: "0x39 1x19"}),
			fires(40, "NodeDrainerMessagesLost"),
		},
		{
			"the resync of a new leader is faster than the queue",
			healthy().with(series{
				`messages_lost_total{instance="b"}`: "0x9 1x49",
				`leader{instance="a"}`:              "1x9 0x49", `leader{instance="b"}`: "0x9 1x49",
			}), always(),
		},
		{
			"launches are abandoned",
			healthy().with(series{`launches_total{instance="a",outcome="abandoned"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerLaunchesFail"), minute{45, nil}),
		},
		{
			"launches go into service as they are",
			healthy().with(series{`launches_total{instance="a",outcome="continued"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerLaunchesFail"),
		},
	}
}
