package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/logging"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/ec2"
)

// How long the world around may take to answer at the start.
const (
	clusterTimeout  = 10 * time.Second
	metadataTimeout = 500 * time.Millisecond
)

// reader reads groups from Auto Scaling, and from EC2 what their instances are launched from.
type reader struct {
	*autoscaling.Reader
	*ec2.LaunchReader
}

// world is what the trigger reaches.
type world struct {
	config  rollout.Config
	reader  reader
	writer  *autoscaling.Writer
	view    rollout.Cluster // nil without Kubernetes.
	tainter rollout.Tainter // nil without Kubernetes.
	close   func()
}

// connect makes the clients. A verb that tells nothing of nodes does without Kubernetes.
func (p *program) connect(ctx context.Context, v verb) (*world, error) {
	c := p.settings.cloud
	c.AnswerTimeout = time.Minute
	amazon, err := cloud.Load(ctx, c)
	if err != nil {
		return nil, err
	}
	amazon.Logger = logging.Nop{}
	amazon.Retryer = patient
	groups := awsautoscaling.NewFromConfig(amazon)
	w := &world{config: p.settings.config(), writer: autoscaling.NewWriter(groups), close: func() {}}
	w.reader = reader{autoscaling.NewReader(groups), ec2.NewLaunchReader(awsec2.NewFromConfig(amazon))}
	if v != verbRun && v != verbPlan && v != verbStatus {
		return w, nil
	}
	own := make(chan string, 1)
	go func() { own <- ownInstance(ctx, amazon) }()
	err = p.connectKubernetes(ctx, w)
	if id := <-own; id != "" {
		w.config.Self = id
	}
	return w, err
}

// patient retries what AWS throttles, for as long as package autoscaling gives a call: ten attempts fit into a
// minute. It has no budget of retries beside that: in a rollout of hours one would be spent some time.
func patient() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 10
		o.MaxBackoff = 5 * time.Second
		o.RateLimiter = ratelimit.None
	})
}

// ownInstance is the instance that the trigger runs on, as far as the instance metadata can be asked for
// it.
func ownInstance(ctx context.Context, amazon aws.Config) string {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	id, err := cloud.InstanceID(ctx, amazon)
	if err != nil {
		return "" // Not on an instance, or not allowed to know.
	}
	return id
}

// connectKubernetes fills in what needs Kubernetes. It may be that there is none; then a note says so,
// unless it was asked for.
func (p *program) connectKubernetes(ctx context.Context, w *world) error {
	s := p.settings
	if s.noKubernetes {
		return nil
	}
	client, view, stop, err := p.watch(ctx)
	switch {
	case err == nil:
		w.view, w.tainter, w.close = view, cluster.NewTainter(client), stop
		w.config.Self = p.podInstance(ctx, view)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.kubeconfig != "" || s.context != "" || len(s.Exclude) > 0 || s.tainting():
		return fmt.Errorf("ask Kubernetes: %w", err)
	}
	_, _ = fmt.Fprintf(p.stderr, "trigger: going on without Kubernetes: %v. Nodes, their pods and budgets "+
		"are not told. --no-kubernetes does without this note.\n", err)
	return nil
}

// watch has a View follow the nodes until it is stopped.
func (p *program) watch(
	ctx context.Context,
) (client kubernetes.Interface, view *cluster.View, stop func(), err error) {
	client, err = p.kubernetesClient()
	if err != nil {
		return nil, nil, nil, err
	}
	view = cluster.New(client)
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx)) // what an interrupt does may ask it too
	failed, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		failed <- view.Run(watching, clusterTimeout)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	select {
	case <-view.Synced():
		return client, view, stop, nil
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	return nil, nil, nil, err
}

// kubernetesClient follows kubectl's rules, and in a pod its ServiceAccount.
func (p *program) kubernetesClient() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.settings.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: p.settings.context}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, errors.New("no cluster is configured (by KUBECONFIG, --kubeconfig, or as a pod's)")
		}
		return nil, err
	}
	cfg.QPS = -1 // the API server's own priority and fairness decides what it takes
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.UserAgent = rest.DefaultKubernetesUserAgent() + " node-drainer/" + p.version
	cfg.WarningHandler = rest.NoWarnings{}
	return kubernetes.NewForConfig(cfg)
}

// namespaceFile is where Kubernetes tells a pod its namespace. Source: "Accessing the Kubernetes API from
// a Pod" in its documentation.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podInstance is the instance that the trigger's pod runs on, or empty: not in a pod, or not to be known.
func (p *program) podInstance(ctx context.Context, view *cluster.View) string {
	namespace, pod := p.environ["POD_NAMESPACE"], p.environ["POD_NAME"]
	if namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return ""
		}
		namespace = strings.TrimSpace(string(text))
	}
	if pod == "" {
		pod = p.environ["HOSTNAME"] // which is the pod's name, unless it is on the host's network
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	node, err := view.Self(ctx, namespace, pod)
	if err != nil || node == "" {
		return ""
	}
	return view.InstanceOf(node)
}
