package surge

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
)

// records are the surges in a ConfigMap: a key NAMESPACE.STATEFULSET for each. The name of a namespace has no dot.
type records struct {
	client kubernetes.Interface
	at     types.NamespacedName
}

func keyOf(s workload.Surge) string { return s.Namespace + "." + s.StatefulSet }

// list returns all surges, sorted by their keys.
func (r records) list(ctx context.Context) (all []workload.Surge, err error) {
	recorded, err := r.get(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(recorded.Data)) {
		surge, err := parse(key, recorded.Data[key])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", r.at, err)
		}
		all = append(all, surge)
	}
	return all, nil
}

func parse(key, value string) (s workload.Surge, err error) {
	s.Namespace, s.StatefulSet, _ = strings.Cut(key, ".")
	if err = json.Unmarshal([]byte(value), &s); err != nil {
		err = fmt.Errorf("parse the key %s: %w", key, err)
	}
	return s, err
}

// get returns the ConfigMap.
func (r records) get(ctx context.Context) (*corev1.ConfigMap, error) {
	recorded, err := r.client.CoreV1().ConfigMaps(r.at.Namespace).Get(ctx, r.at.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s: %w", r.at, err)
	}
	return recorded, nil
}

// add records a surge, unless there is one of its StatefulSet, and returns the one that is recorded. One of a
// StatefulSet that was replaced is none.
func (r records) add(ctx context.Context, s workload.Surge) (workload.Surge, error) {
	recorded, err := r.get(ctx)
	if err != nil {
		return workload.Surge{}, err
	}
	if value, ok := recorded.Data[keyOf(s)]; ok {
		if earlier, err := parse(keyOf(s), value); err != nil || earlier.UID == s.UID {
			return earlier, err
		}
	}
	return s, r.write(ctx, recorded, s)
}

// put records a surge again.
func (r records) put(ctx context.Context, s workload.Surge) error {
	recorded, err := r.get(ctx)
	if err != nil {
		return err
	}
	return r.write(ctx, recorded, s)
}

func (r records) write(ctx context.Context, recorded *corev1.ConfigMap, s workload.Surge) error {
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if recorded.Data == nil {
		recorded.Data = map[string]string{}
	}
	recorded.Data[keyOf(s)] = string(value)
	return r.store(ctx, recorded)
}

// remove removes the record of a surge, if there is one.
func (r records) remove(ctx context.Context, s workload.Surge) error {
	recorded, err := r.get(ctx)
	if err != nil || recorded.Data[keyOf(s)] == "" {
		return err
	}
	delete(recorded.Data, keyOf(s))
	return r.store(ctx, recorded)
}

// store fails with a conflict if the ConfigMap has changed since it was read.
func (r records) store(ctx context.Context, recorded *corev1.ConfigMap) error {
	_, err := r.client.CoreV1().ConfigMaps(r.at.Namespace).Update(ctx, recorded, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", r.at, err)
	}
	return nil
}
