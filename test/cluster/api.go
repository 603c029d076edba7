package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// API is the API server of a cluster for its administrator, without a limit on requests.
type API struct {
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
	dynamic    dynamic.Interface
	kinds      meta.RESTMapper
}

// newAPI returns the API server that a kubeconfig names.
func newAPI(kubeconfig string) (*API, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	a := &API{kubeconfig: kubeconfig, config: config}
	if a.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if a.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	a.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(a.client.Discovery()))
	return a, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (a *API) Kubeconfig() string { return a.kubeconfig }

// Config returns a copy of the administrator's configuration, without a limit on requests.
func (a *API) Config() *rest.Config { return rest.CopyConfig(a.config) }

// Client returns the administrator's client, without a limit on requests.
func (a *API) Client() kubernetes.Interface { return a.client }

// Ready returns when the API server says that it is ready.
func (a *API) Ready(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		last = a.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server: %w (last answer: %w)", err, last)
	}
	return nil
}
