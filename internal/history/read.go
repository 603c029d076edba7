package history

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// mostFound is how many ConfigMaps with records are read.
const mostFound = 100

// ErrNone is the error of Find if no ConfigMap of the cluster has records.
var ErrNone = errors.New("no ConfigMap of the cluster has the label " + Label)

// SeveralError is the error of Find if several ConfigMaps have records: their NAMESPACE/NAME.
type SeveralError []string

// Error names them.
func (e SeveralError) Error() string { return "several agents keep records: " + strings.Join(e, ", ") }

// Read returns the records in a ConfigMap, the newest first.
func Read(ctx context.Context, client kubernetes.Interface, namespace, name string) ([]Drain, error) {
	kept, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s/%s: %w", namespace, name, err)
	}
	return newestFirst(parse(kept.Data[key])), nil
}

// Find returns the records in the only ConfigMap of the cluster that has the Label.
func Find(ctx context.Context, client kubernetes.Interface) ([]Drain, error) {
	list, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: Label, Limit: mostFound,
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("list ConfigMaps with the label %s: %w", Label, err)
	case len(list.Items) == 0:
		return nil, ErrNone
	case len(list.Items) > 1:
		var several SeveralError
		for i := range list.Items {
			several = append(several, list.Items[i].Namespace+"/"+list.Items[i].Name)
		}
		return nil, several
	}
	return newestFirst(parse(list.Items[0].Data[key])), nil
}

// IsMissing reports whether err is that there is no ConfigMap.
func IsMissing(err error) bool { return apierrors.IsNotFound(err) || errors.Is(err, ErrNone) }
