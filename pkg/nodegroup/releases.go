package nodegroup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// Releases reads which releases of its AMIs EKS publishes, as parameters of Systems Manager. It signs the one call that
// this needs itself, with the SDK's signer, instead of linking the SDK's client for all of Systems Manager.
type Releases struct {
	cfg      aws.Config
	endpoint func(context.Context) (string, error)
}

// NewReleases returns Releases that call the endpoint of Systems Manager.
func NewReleases(cfg aws.Config, endpoint func(context.Context) (string, error)) *Releases {
	return &Releases{cfg, endpoint}
}

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

// errRepeat is an answer after which the call is repeated.
var errRepeat = errors.New("repeat the call")

const (
	// callTimeout bounds a call with all of its attempts.
	callTimeout = time.Minute
	// maxAnswer is more than any parameter has. Source: PutParameter in the Systems Manager API reference (8 KB).
	maxAnswer = 64 << 10
)

// Newest returns the value of the parameter. It repeats what AWS throttles, or fails to serve, for up to a minute.
func (r *Releases) Newest(ctx context.Context, parameter string) (release string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	final := func(err error) bool { return !errors.Is(err, errRepeat) }
	var last error
	err = retry.Do(ctx, retry.Backoff(200*time.Millisecond, 5*time.Second), func() (err error) {
		release, err = r.get(ctx, parameter)
		return err
	}, final, func(err error) { last = err })
	if err != nil {
		return "", fmt.Errorf("read the parameter %s: %w", parameter, errors.Join(err, last))
	}
	return release, nil
}

// get calls GetParameter once. Source: GetParameter in the Systems Manager API reference.
func (r *Releases) get(ctx context.Context, parameter string) (string, error) {
	answer, status, err := r.call(ctx, parameter)
	if err != nil {
		return "", err
	}
	var out struct {
		Parameter struct{ Value string }
		Type      string `json:"__type"`
		Message   string
	}
	malformed := json.Unmarshal(answer, &out)
	_, code, _ := strings.Cut(out.Type, "#")
	if code == "" {
		code = out.Type
	}
	switch {
	case status >= http.StatusInternalServerError || strings.HasPrefix(code, "Throttling"):
		return "", fmt.Errorf("%w: the answer of Systems Manager has status %d %s", errRepeat, status, code)
	case status != http.StatusOK:
		return "", fmt.Errorf("the answer of Systems Manager has status %d %s: %s", status, code, out.Message)
	case malformed != nil || out.Parameter.Value == "":
		return "", errors.New("the answer of Systems Manager has no value")
	default:
		return out.Parameter.Value, nil
	}
}

func (r *Releases) call(ctx context.Context, parameter string) (answer []byte, status int, err error) {
	endpoint, err := r.endpoint(ctx)
	if err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(map[string]string{"Name": parameter})
	if err != nil {
		return nil, 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "AmazonSSM.GetParameter")
	credentials, err := r.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("find credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	err = v4.NewSigner().SignHTTP(ctx, credentials, request, hex.EncodeToString(sum[:]), "ssm", r.cfg.Region, time.Now())
	if err != nil {
		return nil, 0, fmt.Errorf("sign the call: %w", err)
	}
	response, err := r.cfg.HTTPClient.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errRepeat, err)
	}
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errRepeat, err)
	}
	return answer, response.StatusCode, nil
}
