package nodegroup

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestParameterOf: every AMI type has a parameter, but those of Windows and the user's own. The names are those of
// "Retrieve recommended AMI IDs" in the EKS user guide.
func TestParameterOf(t *testing.T) {
	t.Parallel()
	const eks, bottlerocket = "/aws/service/eks/optimized-ami/1.34/", "/aws/service/bottlerocket/aws-k8s-1.34"
	want := map[types.AMITypes]string{
		types.AMITypesAl2X8664:                    eks + "amazon-linux-2/recommended/release_version",
		types.AMITypesAl2X8664Gpu:                 eks + "amazon-linux-2-gpu/recommended/release_version",
		types.AMITypesAl2Arm64:                    eks + "amazon-linux-2-arm64/recommended/release_version",
		types.AMITypesAl2023X8664Standard:         eks + "amazon-linux-2023/x86_64/standard/recommended/release_version",
		types.AMITypesAl2023Arm64Standard:         eks + "amazon-linux-2023/arm64/standard/recommended/release_version",
		types.AMITypesAl2023X8664Neuron:           eks + "amazon-linux-2023/x86_64/neuron/recommended/release_version",
		types.AMITypesAl2023X8664Nvidia:           eks + "amazon-linux-2023/x86_64/nvidia/recommended/release_version",
		types.AMITypesAl2023Arm64Nvidia:           eks + "amazon-linux-2023/arm64/nvidia/recommended/release_version",
		types.AMITypesBottlerocketX8664:           bottlerocket + "/x86_64/latest/image_version",
		types.AMITypesBottlerocketArm64:           bottlerocket + "/arm64/latest/image_version",
		types.AMITypesBottlerocketX8664Fips:       bottlerocket + "-fips/x86_64/latest/image_version",
		types.AMITypesBottlerocketArm64Fips:       bottlerocket + "-fips/arm64/latest/image_version",
		types.AMITypesBottlerocketX8664Nvidia:     bottlerocket + "-nvidia/x86_64/latest/image_version",
		types.AMITypesBottlerocketArm64Nvidia:     bottlerocket + "-nvidia/arm64/latest/image_version",
		types.AMITypesBottlerocketX8664NvidiaFips: bottlerocket + "-nvidia-fips/x86_64/latest/image_version",
		types.AMITypesBottlerocketArm64NvidiaFips: bottlerocket + "-nvidia-fips/arm64/latest/image_version",
	}
	for _, amiType := range types.AMITypes("").Values() {
		if got := parameterOf(string(amiType), "1.34"); got != want[amiType] {
			t.Errorf("%s: got %s, want %s", amiType, got, want[amiType])
		}
	}
}

// TestIsOlder: only releases of one Kubernetes version that end with a day can be compared.
func TestIsOlder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		release, other string
		want           bool
	}{
		{"1.34.2-20261104", "1.34.2-20261118", true},
		{"1.34.2-20261104", "1.34.3-20261118", true},
		{"1.34.2-20261118", "1.34.2-20261104", false},
		{"1.34.2-20261104", "1.34.2-20261104", false},
		{"1.33.5-20261104", "1.34.2-20261118", false},
		{"1.50.0-cacc4ce9", "1.50.1-0e1bd0a7", false},
		{"1.20.1-7c3e9198", "1.20.0-fcf71a47", false},
		{"1.20.1-12345678", "1.20.0-87654321", false},
		{"", "1.34.2-20261104", false},
	} {
		if got := isOlder(tt.release, tt.other); got != tt.want {
			t.Errorf("%s and %s: got %v", tt.release, tt.other, got)
		}
	}
}

// TestInput: an update asks for what the nodes are to have, and for a template's version only where that changes.
func TestInput(t *testing.T) {
	t.Parallel()
	template := func(version string) *refresh.Template {
		return &refresh.Template{ID: "lt-2", Name: "web", Version: version}
	}
	asked := &types.LaunchTemplateSpecification{Id: aws.String("lt-2"), Version: aws.String("8")}
	for name, tt := range map[string]struct {
		n    refresh.Nodegroup
		want sdk.UpdateNodegroupVersionInput
	}{
		"a release": {
			refresh.Nodegroup{Wants: refresh.NodeVersion{Kubernetes: "1.34", Release: "1.34.2-20261104"}},
			sdk.UpdateNodegroupVersionInput{Version: aws.String("1.34"), ReleaseVersion: aws.String("1.34.2-20261104")},
		},
		"the template stays": {
			refresh.Nodegroup{
				Has:   refresh.NodeVersion{Template: template("8")},
				Wants: refresh.NodeVersion{Kubernetes: "1.34", Release: "r", Template: template("8")},
			},
			sdk.UpdateNodegroupVersionInput{Version: aws.String("1.34"), ReleaseVersion: aws.String("r")},
		},
		"a template, by force": {
			refresh.Nodegroup{
				Force: true, Has: refresh.NodeVersion{Template: template("7")},
				Wants: refresh.NodeVersion{Kubernetes: "1.34", Release: "r", Template: template("8")},
			},
			sdk.UpdateNodegroupVersionInput{Version: aws.String("1.34"), ReleaseVersion: aws.String("r"), LaunchTemplate: asked, Force: true},
		},
		"an AMI of the user's": {
			refresh.Nodegroup{
				Custom: true, Has: refresh.NodeVersion{Template: template("7")}, Wants: refresh.NodeVersion{Template: template("8")},
			},
			sdk.UpdateNodegroupVersionInput{LaunchTemplate: asked},
		},
	} {
		tt.n.Cluster, tt.n.Name = "prod", "web"
		tt.want.ClusterName, tt.want.NodegroupName = &tt.n.Cluster, &tt.n.Name
		got := input(&tt.n, refresh.Target{})
		ignored := cmpopts.IgnoreFields(sdk.UpdateNodegroupVersionInput{}, "ClientRequestToken")
		if diff := cmp.Diff(&tt.want, got, ignored, cmpopts.IgnoreUnexported(sdk.UpdateNodegroupVersionInput{}, types.LaunchTemplateSpecification{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestToken: an attempt that is repeated has the same token, and an update after another one has not.
func TestToken(t *testing.T) {
	t.Parallel()
	modified := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	n, target := refresh.Nodegroup{Cluster: "prod", Name: "web", Modified: modified}, refresh.Target{Key: "1.34.2-20261104"}
	first, forced, later, other := token(&n, target), n, n, n
	forced.Force, later.Modified, other.Name = true, modified.Add(time.Minute), "db"
	if again := token(&n, target); again != first || len(first) > 64 {
		t.Errorf("got %s, then %s", first, again)
	}
	for _, different := range []string{
		token(&forced, target), token(&later, target), token(&other, target), token(&n, refresh.Target{Key: "1.34.3-20261201"}),
	} {
		if different == first {
			t.Errorf("two updates have the token %s", first)
		}
	}
}

func TestToRefresh(t *testing.T) {
	t.Parallel()
	for typ, changesVersion := range map[types.UpdateType]bool{
		types.UpdateTypeVersionUpdate: true, types.UpdateTypeVersionRollback: true, types.UpdateTypeConfigUpdate: false,
	} {
		if f := toRefresh("eks-web-1", &types.Update{Type: typ}); (f.Update != nil) != changesVersion {
			t.Errorf("%s: %+v", typ, f)
		}
	}
	got := toRefresh("eks-web-1", &types.Update{
		Id: aws.String("u-1"), Status: types.UpdateStatusFailed, Type: types.UpdateTypeVersionUpdate,
		Params: []types.UpdateParam{
			{Type: types.UpdateParamTypeVersion, Value: aws.String("1.34")},
			{Type: types.UpdateParamTypeReleaseVersion, Value: aws.String("1.34.2-20261104")},
			{Type: types.UpdateParamTypeLaunchTemplateVersion, Value: aws.String("8")},
			{Type: types.UpdateParamTypeLaunchTemplateName, Value: aws.String("web")},
		},
		Errors: []types.ErrorDetail{{
			ErrorCode: types.ErrorCodePodEvictionFailure, ErrorMessage: aws.String("Reached max retries"), ResourceIds: []string{"ip-1", "ip-2"},
		}},
	})
	want := refresh.Refresh{
		ID: "u-1", Group: "eks-web-1", Status: refresh.StatusFailed, Reason: "PodEvictionFailure: Reached max retries (ip-1, ip-2)",
		Update:    &refresh.NodeVersion{Kubernetes: "1.34", Release: "1.34.2-20261104", Template: &refresh.Template{Version: "8"}},
		Resources: []string{"ip-1", "ip-2"}, Evictions: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if other := toRefresh("eks-web-1", &types.Update{Type: types.UpdateTypeConfigUpdate}); other.Update != nil {
		t.Errorf("an update of the configuration is %+v", other)
	}
}
