package nodegroup

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// ParametersAPI is the call of Releases.
type ParametersAPI interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// Releases reads which releases of its AMIs EKS publishes, as parameters of Systems Manager.
type Releases struct{ api ParametersAPI }

// NewReleases returns Releases. The client must retry what AWS throttles.
func NewReleases(api ParametersAPI) *Releases { return &Releases{api} }

// parameterOf is the name of the parameter with the newest release of an AMI type, for a Kubernetes version. It is
// empty for types that have none: their AMI is the user's own, or EKS publishes no release of them there. Sources:
// "Retrieve recommended Amazon Linux AMI IDs" and "Retrieve recommended Bottlerocket AMI IDs" in the EKS user guide.
func parameterOf(amiType, kubernetes string) string {
	arch := "x86_64"
	if strings.Contains(amiType, "ARM_64") {
		arch = "arm64"
	}
	has := func(part string) bool { return strings.Contains(amiType, part) }
	switch variant := ""; {
	case strings.HasPrefix(amiType, "AL2023_"):
		at := strings.LastIndexByte(amiType, '_')
		return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/recommended/release_version",
			kubernetes, arch, strings.ToLower(amiType[at+1:]))
	case strings.HasPrefix(amiType, "AL2_"):
		if has("GPU") {
			variant = "-gpu"
		} else if arch == "arm64" {
			variant = "-arm64"
		}
		return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/recommended/release_version",
			kubernetes, variant)
	case strings.HasPrefix(amiType, "BOTTLEROCKET_"):
		if has("NVIDIA") {
			variant = "-nvidia"
		}
		if has("FIPS") {
			variant += "-fips"
		}
		return fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/latest/image_version", kubernetes, variant, arch)
	default:
		return ""
	}
}

// Newest returns the value of the parameter.
func (r *Releases) Newest(ctx context.Context, parameter string) (release string, err error) {
	out, err := r.api.GetParameter(ctx, &ssm.GetParameterInput{Name: &parameter})
	if err != nil {
		return "", fmt.Errorf("read the parameter %s: %w", parameter, err)
	}
	if out.Parameter == nil || aws.ToString(out.Parameter.Value) == "" {
		return "", fmt.Errorf("read the parameter %s: it has no value", parameter)
	}
	return *out.Parameter.Value, nil
}
