package autoscaling

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestGroupIsDescribedAsWritten: AWS describes a group ten seconds late, and the Reader waits for what the Writer has
// written, but not for long for what others have changed since.
func TestGroupIsDescribedAsWritten(t *testing.T) {
	t.Parallel()
	const late = 10 * time.Second
	surge := refresh.Surge{From: 3, To: 4}
	other := refresh.Lease{Holder: "other", Expires: time.Unix(0, 0)}
	for name, tt := range map[string]struct {
		write       func(*testing.T, *Writer, *sdk.Client)
		least, most time.Duration
		key, want   string
	}{
		"a surge": {func(t *testing.T, w *Writer, _ *sdk.Client) {
			t.Helper()
			must(t, w.WriteSurge(t.Context(), groupName, surge))
		}, late, late + 3*time.Second, refresh.SurgeTag, "3-4"},
		"a surge that was taken back": {func(t *testing.T, w *Writer, _ *sdk.Client) {
			t.Helper()
			must(t, w.WriteSurge(t.Context(), groupName, surge))
			time.Sleep(2 * late)
			must(t, w.WriteSurge(t.Context(), groupName, refresh.Surge{}))
		}, late, late + 3*time.Second, refresh.SurgeTag, ""},
		"somebody else has removed it": {func(t *testing.T, w *Writer, c *sdk.Client) {
			t.Helper()
			must(t, w.WriteSurge(t.Context(), groupName, surge))
			_, err := c.DeleteTags(t.Context(), &sdk.DeleteTagsInput{Tags: []types.Tag{{
				ResourceId: aws.String(groupName), ResourceType: aws.String(groupResource), Key: aws.String(refresh.SurgeTag),
			}}})
			must(t, err)
		}, refresh.ShownWithin, refresh.ShownWithin + 3*time.Second, refresh.SurgeTag, ""},
		"another trigger has taken the lease": {func(t *testing.T, w *Writer, c *sdk.Client) {
			t.Helper()
			must(t, w.WriteLease(t.Context(), groupName, refresh.Lease{Holder: "this", Expires: time.Unix(0, 0)}))
			must(t, NewWriter(c).WriteLease(t.Context(), groupName, other))
		}, late, late + 3*time.Second, refresh.LeaseTag, other.String()},
		"that a target has failed, which is no record": {func(t *testing.T, w *Writer, _ *sdk.Client) {
			t.Helper()
			must(t, w.WriteFailed(t.Context(), groupName, refresh.Failed{}))
		}, 0, time.Second, refresh.FailedTag, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := awsim.NewUnconnected(awsim.Options{})
				defer func() { must(t, s.Close()) }()
				client := sdk.New(sdk.Options{
					Region: "eu-central-1", BaseEndpoint: aws.String(s.URL()), HTTPClient: &http.Client{Transport: s},
					Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
				})
				must(t, s.CreateGroup(awsim.Group{Name: groupName}))
				s.SetDelays(awsim.Delays{Visible: late})
				r, w := NewReader(client), NewWriter(client)
				r.Follow(w)
				tt.write(t, w, client)
				start := time.Now()
				g, err := r.Group(t.Context(), groupName)
				if took := time.Since(start); err != nil || took < tt.least || took > tt.most || g.Tags[tt.key] != tt.want {
					t.Errorf("%q after %v, %v", g.Tags[tt.key], took, err)
				}
			})
		})
	}
}
