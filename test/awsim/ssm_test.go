package awsim_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestParameters reads the public parameters of EKS's releases, as the SDK's client would.
func TestParameters(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	s.PublishRelease(awsim.Release{KubernetesVersion: "1.31", Version: "1.31.0-20260101", Image: "ami-1"})
	s.PublishRelease(awsim.Release{KubernetesVersion: "1.31", Version: "1.31.0-20260102", Image: "ami-2"})
	s.PublishRelease(awsim.Release{KubernetesVersion: "1.31", AMIType: awsim.Bottlerocket, Version: "1.2.3-abc", Image: "ami-3"})
	const public = "/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/x86_64/standard/recommended/"
	must(t, s.Allow("limited", allowing(`"ssm:GetParameter"`, `"arn:aws:ssm:eu-central-1::parameter`+public+`release_version"`, "")))
	client := transport(t)
	for _, tt := range []struct{ key, name, want string }{
		{"all", public + "release_version", "1.31.0-20260102"},
		{"all", public + "image_id", "ami-2"},
		{"all", "/aws/service/bottlerocket/aws-k8s-1.31/x86_64/latest/image_version", "1.2.3-abc"},
		{"all", strings.Replace(public, "1.31", "1.32", 1) + "release_version", "ParameterNotFound"},
		{"limited", public + "release_version", "1.31.0-20260102"},
		{"limited", public + "image_id", "AccessDeniedException"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader(`{"Name": "`+tt.name+`"}`))
		must(t, err)
		req.Header.Set("X-Amz-Target", "AmazonSSM.GetParameter")
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+tt.key+"/20260101/eu-central-1/ssm/aws4_request")
		answer, err := client.Do(req)
		must(t, err)
		var got struct {
			Type      string `json:"__type"`
			Parameter struct{ Value string }
		}
		must(t, json.NewDecoder(answer.Body).Decode(&got))
		must(t, answer.Body.Close())
		if got.Type+got.Parameter.Value != tt.want || (got.Type == "") != (answer.StatusCode == http.StatusOK) {
			t.Errorf("%s of %s: %d, %+v, want %s", tt.name, tt.key, answer.StatusCode, got, tt.want)
		}
	}
}
