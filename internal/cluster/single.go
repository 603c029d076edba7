package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// SinglePods returns the pods on the nodes that are the only one of their controller, as namespace/name, sorted. The
// loads are those of Loads. It lists the pods of the namespaces in which there may be such pods.
func (v *View) SinglePods(ctx context.Context, loads map[string]Load) ([]string, error) {
	pods := map[types.UID][]string{}
	for _, load := range loads {
		for owner, names := range load.owned {
			pods[owner] = append(pods[owner], names...)
		}
	}
	maps.DeleteFunc(pods, func(_ types.UID, names []string) bool { return len(names) > 1 })
	namespaces := map[string]bool{}
	for _, names := range pods {
		namespace, _, _ := strings.Cut(names[0], "/")
		namespaces[namespace] = true
	}
	total := map[types.UID]int{}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if err := countOwned(ctx, v.client, namespace, total); err != nil {
			return nil, err
		}
	}
	var single []string
	for owner, names := range pods {
		if total[owner] == 1 {
			single = append(single, names[0])
		}
	}
	slices.Sort(single)
	return single, nil
}

// countOwned adds the pods of the namespace that would be evicted, by their controllers.
func countOwned(
	ctx context.Context, client kubernetes.Interface, namespace string, total map[types.UID]int,
) error {
	return eachPod(ctx, client, namespace, metav1.ListOptions{}, func(p *corev1.Pod) {
		if owner := metav1.GetControllerOf(p); owner != nil && isEvictable(p) {
			total[owner.UID]++
		}
	})
}

// eachPod lists pods page by page, without keeping them.
func eachPod(
	ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions,
	visit func(*corev1.Pod),
) error {
	options.Limit = pageSize
	for {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		pods, err := client.CoreV1().Pods(namespace).List(ctx, options)
		cancel()
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for i := range pods.Items {
			visit(&pods.Items[i])
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			return nil
		}
	}
}
