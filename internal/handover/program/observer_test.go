package program

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// TestFacts: what is written to the log and to Events.
func TestFacts(t *testing.T) {
	t.Parallel()
	surge := workload.Surge{
		Namespace: "shop", StatefulSet: "redis", Replicas: 3, Pod: "redis-3", For: "redis-0", ForUID: "uid-1",
	}
	failure := errors.New("no answer")
	const aboutSurge = `"statefulset":"shop/redis","replicas":3,"pod":"redis-3","for":"redis-0",`
	for _, tt := range []struct {
		name   string
		record func(*observer)
		log    string
		event  string
	}{
		{"an answer", func(o *observer) {
			o.Answered("redis-0", handover.Answer{
				Go: true, Outcome: handover.HandedOver, Leader: "redis-1", Message: "redis-1 leads instead of redis-0",
			}, nil, 3*time.Second)
		}, `{"level":"info","pod":"redis-0","go":true,"outcome":"handed-over","reason":"redis-1 leads instead of redis-0",` +
			`"leader":"redis-1","took":3000,"message":"answered"}`, ""},
		{
			"no answer", func(o *observer) { o.Answered("redis-0", handover.Answer{}, failure, time.Second) },
			`{"level":"warn","error":"no answer","pod":"redis-0","go":false,"outcome":"","reason":"","leader":"",` +
				`"took":1000,"message":"answered"}`, "",
		},
		{
			"work that is retried", func(o *observer) { o.ReconcileFailed(failure) },
			`{"level":"warn","error":"no answer","message":"reconcile failed, and is retried"}`, "",
		},
		{
			"an Event that is not written", func(o *observer) { o.EventDropped("pod", "redis-0", "SurgeEnded", failure) },
			`{"level":"warn","error":"no answer","object":"pod","name":"redis-0","event":"SurgeEnded",` +
				`"message":"Event not written"}`, "",
		},
		{
			"a surge starts", func(o *observer) { o.SurgeStarted(surge) },
			`{"level":"info",` + aboutSurge + `"message":"surge started"}`,
			"Normal SurgeStarted shop/redis-0 uid-1: StatefulSet redis has 4 replicas instead of 3 until the pod has moved: " +
				"redis-3 takes over meanwhile",
		},
		{
			"a surge waits", func(o *observer) { o.SurgePutOff(surge, "redis-0 has not moved yet") },
			`{"level":"info",` + aboutSurge + `"reason":"redis-0 has not moved yet","message":"surge not ended yet"}`, "",
		},
		{
			"a surge ends", func(o *observer) { o.SurgeEnded(surge, "redis-0 has moved") },
			`{"level":"info",` + aboutSurge + `"reason":"redis-0 has moved","message":"surge ended"}`,
			"Normal SurgeEnded shop/redis-0 uid-1: The surge of StatefulSet redis has ended: redis-0 has moved",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			client := fake.NewClientset()
			events := node.NewEvents(context.WithoutCancel(t.Context()), client, "node-drainer-handover")
			tt.record(&observer{zerolog.New(&log), events})
			events.Close()
			if diff := cmp.Diff(tt.log, strings.TrimSpace(log.String())); diff != "" {
				t.Error(diff)
			}
			var written []string
			for _, a := range client.Actions() {
				e := a.(clienttesting.CreateAction).GetObject().(*corev1.Event)
				o := e.InvolvedObject
				written = append(written, e.Type+" "+e.Reason+" "+o.Namespace+"/"+o.Name+" "+string(o.UID)+": "+e.Message)
			}
			if diff := cmp.Diff(tt.event, strings.Join(written, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
