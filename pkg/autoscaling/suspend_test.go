package autoscaling

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func (c *changes) SuspendProcesses(
	_ context.Context, in *sdk.SuspendProcessesInput, _ ...func(*sdk.Options),
) (*sdk.SuspendProcessesOutput, error) {
	return nil, c.note("suspend", strings.Join(in.ScalingProcesses, ","))
}

func (c *changes) ResumeProcesses(
	_ context.Context, in *sdk.ResumeProcessesInput, _ ...func(*sdk.Options),
) (*sdk.ResumeProcessesOutput, error) {
	return nil, c.note("resume", strings.Join(in.ScalingProcesses, ","))
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	denied := errors.New("denied")
	for _, tt := range []struct {
		name      string
		suspended []string
		tag       string
		ask       []string
		fails     map[string]error
		want      []string
		done      []string
		failed    string
	}{
		{
			name: "the tag is set first", ask: []string{"AZRebalance", "AlarmNotification"},
			want: []string{"AZRebalance", "AlarmNotification"},
			done: []string{"tag AZRebalance AlarmNotification", "suspend AZRebalance,AlarmNotification"},
		},
		{
			name: "what another client has suspended is not tagged", suspended: []string{"AZRebalance"},
			ask: []string{"AZRebalance", "ScheduledActions"}, want: []string{"ScheduledActions"},
			done: []string{"tag ScheduledActions", "suspend ScheduledActions"},
		},
		{name: "another client has suspended all", suspended: []string{"AZRebalance"}, ask: []string{"AZRebalance"}},
		{name: "suspended by an earlier run", suspended: []string{"AZRebalance"}, tag: "AZRebalance", ask: []string{"AZRebalance"}},
		{
			name: "an earlier run ended between tag and call", tag: "AZRebalance", ask: []string{"AZRebalance"},
			want: []string{"AZRebalance"}, done: []string{"suspend AZRebalance"},
		},
		{
			name: "one more than an earlier run", suspended: []string{"AZRebalance"}, tag: "AZRebalance",
			ask: []string{"AZRebalance", "ScheduledActions"}, want: []string{"ScheduledActions"},
			done: []string{"tag AZRebalance ScheduledActions", "suspend ScheduledActions"},
		},
		{
			name: "without a tag nothing is suspended", ask: []string{"AZRebalance"}, fails: map[string]error{"tag": denied},
			done: []string{"tag AZRebalance"}, failed: "denied",
		},
		{
			name: "refused: the tag stays, and harms nothing", ask: []string{"AZRebalance"}, fails: map[string]error{"suspend": denied},
			done: []string{"tag AZRebalance", "suspend AZRebalance"}, failed: "denied",
		},
	} {
		g := refresh.Group{Name: "workers", Suspended: tt.suspended, Tags: map[string]string{refresh.SuspendedTag: tt.tag}}
		api := &changes{fails: tt.fails}
		got, err := NewWriter(api).Suspend(t.Context(), g, tt.ask)
		if !slices.Equal(got, tt.want) || !slices.Equal(api.done, tt.done) || !fails(err, tt.failed) {
			t.Errorf("%s: got %v, %v, done %v", tt.name, got, err, api.done)
		}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		tag    string
		fails  map[string]error
		want   []string
		done   []string
		failed string
	}{
		{
			name: "the tag goes last", tag: "AZRebalance ScheduledActions", want: []string{"AZRebalance", "ScheduledActions"},
			done: []string{"resume AZRebalance,ScheduledActions", "untag workers"},
		},
		{name: "no tag"},
		{
			name: "refused: the tag stays", tag: "AZRebalance", fails: map[string]error{"resume": errors.New("denied")},
			done: []string{"resume AZRebalance"}, failed: "denied",
		},
	} {
		api := &changes{fails: tt.fails}
		got, err := NewWriter(api).Release(t.Context(), refresh.Group{Name: "workers", Tags: map[string]string{refresh.SuspendedTag: tt.tag}})
		if !slices.Equal(got, tt.want) || !slices.Equal(api.done, tt.done) || !fails(err, tt.failed) {
			t.Errorf("%s: got %v, %v, done %v", tt.name, got, err, api.done)
		}
	}
}
