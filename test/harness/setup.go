package harness

import (
	"context"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// CreateNamespace creates a namespace, and returns when its default ServiceAccount exists: without it no pod
// is admitted.
func CreateNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return Eventually(ctx, func() string {
		if _, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// AWSConfig configures SDK clients for the simulated AWS at url, under the access key.
func AWSConfig(url, accessKey string) aws.Config {
	return aws.Config{
		Region: "eu-central-1", BaseEndpoint: &url, HTTPClient: cloud.InMemory(http.DefaultClient),
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, "test", ""),
	}
}

// UnconnectedConfig is AWSConfig for a simulated AWS that does not listen. Clients make each call once.
func UnconnectedConfig(s *awsim.Server, accessKey string) aws.Config {
	cfg := AWSConfig(s.URL(), accessKey)
	cfg.HTTPClient, cfg.RetryMaxAttempts = &http.Client{Transport: s}, 1
	return cfg
}

// InstanceOf returns the ID of the instance of a node of the control plane.
func InstanceOf(node string) string { return strings.TrimPrefix(node, cluster.NodeName("")) }
