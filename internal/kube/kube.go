// Package kube connects to the API server, and lists what is large in pages.
package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config returns how to connect: as KUBECONFIG says, or with the ServiceAccount of the pod.
func Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client (set KUBECONFIG outside a cluster): %w", err)
	}
	return cfg, nil
}

// Client returns a client of the product, NAME/VERSION, which appears in the audit log. It has no client-side rate
// limit: API Priority and Fairness in the API server limits it.
func Client(cfg *rest.Config, product string) (kubernetes.Interface, error) {
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf // takes a fraction of the time and memory of JSON
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.UserAgent = rest.DefaultKubernetesUserAgent() + " " + product
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client: %w", err)
	}
	return client, nil
}

// EachPod calls use for the pods of a namespace that a consistent list returns, in pages of o.Limit: pods with large
// annotations, each of which may take more than a megabyte, are not all in memory at the same time. use must not keep
// the pod.
func EachPod(
	ctx context.Context, client kubernetes.Interface, namespace string, o metav1.ListOptions, use func(*corev1.Pod),
) error {
	for {
		page, err := client.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return err
		}
		for i := range page.Items {
			use(&page.Items[i])
		}
		if o.Continue = page.Continue; o.Continue == "" {
			return nil
		}
	}
}
