package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// series are values by the minute, by metric and labels, of the instance a unless they name another; in the notation of
// promqltest, where 0+1x59 is an hour that begins with 0 and grows by 1 each minute.
type series map[string]string

// nowAndThen is a counter of what happens once in five minutes.
const nowAndThen = "0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4 11x4"

// healthy is an hour of two replicas that have drained a node and launched one each minute.
func healthy() series {
	return series{
		`leader`: "1x59", `leader{instance="b"}`: "0x59",
		`leader_transitions_total{instance="b"}`: "1x59", `messages_lost_total`: "0x59", `unannounced_terminations_total`: "0x59",
		`step_retries_total`:                          nowAndThen,
		`pods_total{action="evicted"}`:                "0+1x59",
		`pods_waiting{reason="blocked-by-budget"}`:    "3x20 0x38",
		`pods_waiting{reason="misconfigured-budget"}`: "0x59",
		`pods_waiting{reason="later-tier"}`:           "9x59",
		`pods_forced_total{reason="deadline"}`:        "0x59",
		`forced_removal_timestamp_seconds`:            "6000x59", `forced_removal_timestamp_seconds{instance="b"}`: "0x59",
		`pods_forced_total{reason="unhealthy"}`: "0+1x59",
		`terminations_total{outcome="drained"}`: "0+1x59",

		`hand_overs_total{kind="redis",outcome="handed-over"}`: "0+1x59",
		`hand_overs_total{kind="redis",outcome="not-leading"}`: "0+1x59",
		`hand_overs_total{kind="redis",outcome="refused"}`:     "0x59",
		`hand_overs_total{kind="restart",outcome="unfit"}`:     "0+1x59",

		`terminations_total{outcome="left-behind"}`:       "0x59",
		`terminations_total{outcome="node-lost"}`:         "0x59",
		`terminations_total{outcome="cut-short"}`:         "0x59",
		`terminations_total{outcome="unconfirmed"}`:       "0x59",
		`launches_total{outcome="ready"}`:                 "0+1x59",
		`launches_total{outcome="unconfirmed"}`:           "0x59",
		`launches_total{outcome="abandoned"}`:             "0x59",
		`launches_total{outcome="continued"}`:             "0x59",
		`messages_refused_total{reason="malformed"}`:      "0x59",
		`messages_refused_total{reason="unknown-source"}`: "0x59",
		`installation_problems{status="failed"}`:          "0x59",
		`installation_problems{status="warning"}`:         "1x59",
		`notifications_total{result="sent"}`:              "0+1x59",
		`notifications_total{result="failed"}`:            "0x59",
		`notifications_total{result="dropped"}`:           "0x59",
		`api_errors_total{api="autoscaling"}`:             nowAndThen,
		`api_errors_total{api="kubernetes"}`:              nowAndThen,

		`watch_last_success_timestamp_seconds`: "0+60x59", `watch_last_success_timestamp_seconds{instance="b"}`: "0x59",
		`watch_interval_seconds`: "300x59", `watch_interval_seconds{instance="b"}`: "300x59",
		`watch_rollouts_active`: "0x59", `watch_rollouts_active{instance="b"}`: "0x59",
		`watch_failed_target{group="web"}`: "0x59",
	}
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
		metric, own, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		if !strings.Contains(own, "instance=") {
			own = strings.TrimSuffix(`instance="a",`+own, ",")
		}
		job := "node-drainer"
		if strings.HasPrefix(metric, "watch_") {
			job += "-watch"
		}
		fmt.Fprintf(&b, "  node_drainer_%s{namespace=\"agents\",job=%q,%s} %s\n", metric, job, own, s[name])
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
	series series // that differ from those of a healthy hour
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
	between := func(quiet, from int, name string) []minute { return []minute{{quiet, nil}, {from, []string{name}}} }
	fires := func(from int, name string) []minute { return between(from-1, from, name) }
	// A caller pauses for up to 15 s between two tries, and each may take the half minute of a receive.
	const refused, unanswered = "0x9 0+4x49", "0x9 0+1.2x49"
	gone := series{`leader`: "1x9 stale", `leader{instance="b"}`: "0x9 stale"}
	return []scenario{
		{"all is well", nil, always()},
		{"no agent is scraped", gone, fires(15, "NodeDrainerAbsent")},
		{"a target has failed", series{`watch_failed_target{group="web"}`: "0x9 1x29 0x19"}, append(
			fires(10, "NodeDrainerTargetFailed"), minute{40, nil})},
		{
			"the watch reads no groups",
			series{`watch_last_success_timestamp_seconds`: "0+60x9 540x49"},
			fires(50, "NodeDrainerWatchFails"),
		},
		{
			"the watch reads no groups during a rollout",
			series{`watch_last_success_timestamp_seconds`: "0+60x9 540x49", `watch_rollouts_active`: "0x9 1x49"},
			always(),
		},
		{"no leader", series{`leader`: "1x9 0x49"}, fires(12, "NodeDrainerNoLeader")},
		{"the other leads within a minute", series{`leader`: "1x9 0x49", `leader{instance="b"}`: "0x10 1x48"}, always()},
		{"two lead", series{`leader{instance="b"}`: "0x9 1x49"}, fires(12, "NodeDrainerTwoLeaders")},
		{
			"the leader changes each ten minutes",
			series{`leader_transitions_total{instance="b"}`: "1x9 2x9 3x9 4x9 5x9 6x9"},
			between(15, 50, "NodeDrainerLeaderChanges"),
		},
		{"calls fail", series{`api_errors_total{api="autoscaling"}`: "0x9 0+30x49"}, between(20, 40, "NodeDrainerCallsFail")},
		{
			"one caller is always refused",
			series{`api_errors_total{api="sqs"}`: refused},
			between(20, 40, "NodeDrainerCallsFail"),
		},
		{
			"one caller never gets an answer",
			series{`api_errors_total{api="sqs"}`: unanswered},
			between(20, 40, "NodeDrainerCallsFail"),
		},
		{"calls have failed for eight minutes", series{`api_errors_total{api="autoscaling"}`: "0x9 0+30x8 240x40"}, always()},
		{
			"something is missing, and is added within the hour",
			series{`installation_problems{status="failed"}`: "0x9 2x29 0x19"},
			append(fires(15, "NodeDrainerInstallationIncomplete"), minute{40, nil}),
		},
		{
			"the webhook refuses a message",
			series{`notifications_total{result="failed"}`: "0x9 3x50"},
			append(fires(10, "NodeDrainerNotificationsFail"), minute{45, nil}),
		},
		{
			"the webhook does not answer, and messages are dropped",
			series{`notifications_total{result="dropped"}`: "0x9 1+1x49"},
			fires(10, "NodeDrainerNotificationsFail"),
		},
		{"one step is always refused", series{`step_retries_total`: refused}, between(20, 40, "NodeDrainerStepsFail")},
		{"one step never gets an answer", series{`step_retries_total`: unanswered}, between(20, 40, "NodeDrainerStepsFail")},
		{"steps have failed for eight minutes", series{`step_retries_total`: "0x9 0+30x8 240x40"}, always()},
		{
			"a budget never allows",
			series{`pods_waiting{reason="misconfigured-budget"}`: "0x9 2x49"},
			fires(15, "NodeDrainerBudgetNeverAllows"),
		},
		{
			"pods are held, and none is evicted",
			series{
				`pods_waiting{reason="blocked-by-budget"}`: "0x9 2x49",
				`pods_total{action="evicted"}`:             "7x59",
			},
			fires(40, "NodeDrainerPodsBlocked"),
		},
		{
			"pods are held after the last eviction",
			series{
				`pods_waiting{reason="blocked-by-budget"}`: "3x59",
				`pods_total{action="evicted"}`:             "0+1x10 10x48",
			},
			between(40, 45, "NodeDrainerPodsBlocked"),
		},
		{"a rollout of an hour moves pod after pod", series{`pods_waiting{reason="blocked-by-budget"}`: "3x59"}, always()},
		{
			"a rollout of an hour moves a pod each twenty minutes",
			series{
				`pods_waiting{reason="blocked-by-budget"}`: "3x59",
				`pods_total{action="evicted"}`:             "0x9 1x19 2x19 3x9",
			},
			always(),
		},
		{
			"pods of a fleet are forced in time for their deadline",
			series{`forced_removal_timestamp_seconds`: "0x9 2400x30 0x19"},
			append(between(27, 28, "NodeDrainerPodsForcedSoon"), minute{41, nil}),
		},
		{"pods wait for a budget during a Spot interruption", series{`forced_removal_timestamp_seconds`: "0x9 720x1 0x48"}, always()},
		{
			"pods were forced",
			series{`pods_forced_total{reason="deadline"}`: "0x9 1x49"},
			append(fires(10, "NodeDrainerPodsForced"), minute{40, nil}),
		},
		{
			"pods have not handed over",
			series{`hand_overs_total{kind="redis",outcome="refused"}`: "0x9 1x49"},
			append(fires(10, "NodeDrainerHandOversFailed"), minute{40, nil}),
		},
		{
			"pods were left behind",
			series{`terminations_total{outcome="left-behind"}`: "0x9 1x49"},
			append(fires(10, "NodeDrainerPodsLeftBehind"), minute{40, nil}),
		},
		{
			"nodes were lost",
			series{`terminations_total{outcome="node-lost"}`: "0x9 1x49"},
			append(fires(10, "NodeDrainerNodesLost"), minute{40, nil}),
		},
		{
			"a hook timed out before the drain had ended",
			series{`terminations_total{outcome="cut-short"}`: "0x9 1x49"},
			append(fires(10, "NodeDrainerDrainsCutShort"), minute{45, nil}),
		},
		{
			"a termination was made up",
			series{`terminations_total{outcome="unconfirmed"}`: "0x9 1x49"},
			fires(10, "NodeDrainerUnconfirmedMessages"),
		},
		{
			"a launch was made up",
			series{`launches_total{outcome="unconfirmed"}`: "0x9 1x49"},
			fires(10, "NodeDrainerUnconfirmedMessages"),
		},
		{
			"messages are no events",
			series{`messages_refused_total{reason="malformed"}`: "0x9 1x49"},
			fires(10, "NodeDrainerMessagesRefused"),
		},
		{
			"instances terminate without a message",
			series{`unannounced_terminations_total`: "0x39 1x19"},
			fires(40, "NodeDrainerTerminationsUnannounced"),
		},
		{"messages are lost", series{`messages_lost_total`: "0x39 1x19"}, fires(40, "NodeDrainerMessagesLost")},
		{
			"the resync of a new leader is faster than the queue",
			series{
				`messages_lost_total{instance="b"}`: "0x9 1x49",
				`leader`:                            "1x9 0x49", `leader{instance="b"}`: "0x9 1x49",
			},
			always(),
		},
		{
			"launches are abandoned",
			series{`launches_total{outcome="abandoned"}`: "0x9 1x49"},
			append(fires(10, "NodeDrainerLaunchesFail"), minute{45, nil}),
		},
		{
			"launches go into service as they are",
			series{`launches_total{outcome="continued"}`: "0x9 1x49"},
			fires(10, "NodeDrainerLaunchesFail"),
		},
	}
}
