package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awscloudwatch "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/caarlos0/env/v10"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/cloudwatch"
	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/kube"
	"github.com/node-drainer/node-drainer/internal/nodegroup"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// How long Kubernetes, the credentials and the instance metadata may take to answer at the start.
const (
	clusterTimeout     = 10 * time.Second
	credentialsTimeout = time.Minute
	metadataTimeout    = 500 * time.Millisecond
)

// reader reads groups from Auto Scaling, what their instances are launched from, from EC2, and alarms.
type reader struct {
	*autoscaling.Reader
	*ec2.LaunchReader
	*cloudwatch.Alarms
}

// nodegroupReader reads managed node groups with their Auto Scaling groups, and their updates instead of Instance
// Refreshes.
type nodegroupReader struct {
	reader
	*nodegroup.Reader
}

// nodegroupWriter starts updates of managed node groups instead of Instance Refreshes.
type nodegroupWriter struct {
	writer
	*nodegroup.Writer
}

// writer changes groups, and taints nodes.
type writer struct {
	*autoscaling.Writer
	*ec2.Machines
	*cluster.Tainter // nil without Kubernetes.
}

// clients are those of AWS and Kubernetes, and the configuration completed from them.
type clients struct {
	config plan.Config
	reader plan.Reader
	writer writer
	starts *nodegroup.Writer // nil unless managed node groups are updated
	view   plan.Cluster      // nil without Kubernetes.
	close  func()

	silence    *time.Timer          // prints a note unless AWS answers the first request
	kubernetes kubernetes.Interface // nil without Kubernetes.
}

// connect makes the clients. An operation that neither shows nor changes nodes does without Kubernetes.
func (e *executor) connect(ctx context.Context, op operation) (*clients, error) {
	if op == opPlan {
		if err := e.readDrains(); err != nil {
			return nil, err
		}
	}
	settings := e.settings.cloud
	settings.AnswerTimeout = time.Minute
	cfg, err := cloud.Load(ctx, settings)
	if err != nil {
		return nil, err
	}
	cfg.Retryer = newRetryer
	e.aws = cfg
	if op != opWatch { // which does not exit because of AWS
		if err := e.getCredentials(ctx, cfg); err != nil {
			return nil, err
		}
	}
	c := &clients{config: e.settings.config(), close: func() {}}
	metadata := cfg
	answers := e.newAnswering(cfg)
	cfg.HTTPClient, c.silence = answers, answers.silence
	groups := awsautoscaling.NewFromConfig(cfg)
	c.config.Holder = holder()
	machines := awsec2.NewFromConfig(cfg)
	described, changed := autoscaling.NewReader(groups), autoscaling.NewWriter(groups)
	described.Follow(changed)
	read := reader{
		described, ec2.NewLaunchReader(machines), cloudwatch.New(awscloudwatch.NewFromConfig(cfg)),
	}
	c.reader = read
	if e.settings.Mode == refresh.ModeNodegroup {
		c.reader, c.starts = nodegroups(cfg, read, machines, requestOf(e.settings))
	}
	c.writer.Writer, c.writer.Machines = changed, ec2.NewMachines(machines)
	if op == rollout.ActPause {
		return c, nil
	}
	own := make(chan string, 1)
	go func() { own <- ownInstance(ctx, metadata) }()
	err = e.connectKubernetes(ctx, c)
	if id := <-own; id != "" {
		c.config.Self = id
	}
	return c, err
}

// nodegroups returns what reads managed node groups with their Auto Scaling groups, and what updates them.
func nodegroups(
	cfg aws.Config, groups reader, machines *awsec2.Client, r nodegroup.Request,
) (nodegroupReader, *nodegroup.Writer) {
	client := awseks.NewFromConfig(cfg)
	launches := struct {
		*ec2.LaunchReader
		*ec2.SubnetReader
	}{groups.LaunchReader, ec2.NewSubnetReader(machines)}
	releases := nodegroup.NewReleases(ssm.NewFromConfig(cfg))
	read := nodegroup.NewReader(client, groups, launches, releases, r)
	return nodegroupReader{groups, read}, nodegroup.NewWriter(client)
}

// changes is what changes groups, in the mode of the configuration.
func (c *clients) changes() rollout.Writer {
	if c.starts != nil {
		return nodegroupWriter{c.writer, c.starts}
	}
	return c.writer
}

// holder names this process to triggers on other hosts.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// newRetryer returns a retryer whose ten attempts fit into the minute that a call has. It has no budget of
// retries over all calls, because a rollout of hours would use one up.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 10
		o.MaxBackoff = 5 * time.Second
		o.RateLimiter = ratelimit.None
	})
}

// ownInstance returns the instance that the trigger runs on, from the instance metadata. It returns an empty
// string if that does not answer, because the trigger does not run on EC2, or has no access to it.
func ownInstance(ctx context.Context, cfg aws.Config) string {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	id, _ := cloud.InstanceID(ctx, cfg)
	return id
}

// connectKubernetes adds what needs Kubernetes. If the cluster cannot be reached, it prints a note, and
// returns an error only if a setting requires Kubernetes.
func (e *executor) connectKubernetes(ctx context.Context, c *clients) error {
	s := e.settings
	if s.noKubernetes {
		return nil
	}
	silence := e.noteSilence("no answer yet from Kubernetes")
	client, view, stop, err := e.watch(ctx)
	silence.Stop()
	switch {
	case err == nil:
		c.kubernetes, c.view, c.writer.Tainter, c.close = client, view, cluster.NewTainter(client), stop
		if s.autoscaler != "" {
			c.config.Autoscaler = autoscaler.New(client, s.autoscaler)
			if _, err := c.config.Autoscaler.State(ctx); apierrors.IsNotFound(err) { // Another error may pass.
				c.close()
				return fmt.Errorf("%s: %w; kubectl get deployments -A shows those that exist",
					s.options.source("pause-autoscaler"), err)
			}
		}
		c.config.Self = e.podInstance(ctx, view)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.options.needsKubernetes():
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	_, _ = fmt.Fprintf(e.stderr, "trigger: continuing without Kubernetes: %v. Nodes, their pods and budgets "+
		"are not shown. --no-kubernetes omits this note.\n", err)
	return nil
}

// readDrains reads how agents drain nodes: in the container of an agent its variables say so. Elsewhere these are the
// defaults.
func (e *executor) readDrains() error {
	var c drain.Config
	err := env.ParseWithOptions(&c, env.Options{Environment: e.environ, Prefix: "DRAIN_"})
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return fmt.Errorf("how the agent drains nodes, for forecasts: %w", err)
	}
	e.drains = &c
	return nil
}

// watch returns a View that watches the nodes until stop is called.
func (e *executor) watch(
	ctx context.Context,
) (client kubernetes.Interface, view *cluster.View, stop func(), err error) {
	client, err = e.kubernetesClient()
	if err != nil {
		return nil, nil, nil, err
	}
	view = cluster.New(client)
	view.Namespace, view.Drains = e.podNamespace(), e.drains
	// An interrupt does not stop it, because the cleanup after that reads it too.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { failed <- view.Run(watching, clusterTimeout) })
	stop = func() {
		cancel()
		running.Wait()
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
func (e *executor) kubernetesClient() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = e.settings.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: e.settings.context}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, errNoCluster()
		}
		return nil, fmt.Errorf("%w%s", err, contextHint(rules, e.settings.context))
	}
	cfg.WarningHandler = rest.NoWarnings{}
	return kube.Client(cfg, "node-drainer/"+e.version)
}

// errNoCluster says why there is no configuration of a cluster: kubectl's rules ignore files that do not exist.
func errNoCluster() error {
	isFile := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	files := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if files != "" && !slices.ContainsFunc(filepath.SplitList(files), isFile) {
		return fmt.Errorf("no cluster is configured: KUBECONFIG names no file that exists: %s", files)
	}
	return errors.New("no cluster is configured (KUBECONFIG, --kubeconfig, or a pod's ServiceAccount)")
}

// namespaceFile is where a pod finds its namespace. Source: "Accessing the Kubernetes API from
// a Pod" in its documentation.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace returns the namespace that the trigger's pod runs in, or an empty string if it runs in no pod.
func (e *executor) podNamespace() string {
	if namespace := e.environ["POD_NAMESPACE"]; namespace != "" {
		return namespace
	}
	text, _ := os.ReadFile(namespaceFile)
	return strings.TrimSpace(string(text))
}

// podInstance returns the instance that the trigger's pod runs on, or an empty string if it runs in no pod,
// or the pod cannot be read.
func (e *executor) podInstance(ctx context.Context, view *cluster.View) string {
	namespace, pod := e.podNamespace(), e.environ["POD_NAME"]
	if namespace == "" {
		return ""
	}
	if pod == "" {
		pod = e.environ["HOSTNAME"] // which is the pod's name, unless it is on the host's network
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	node, _ := view.Self(ctx, namespace, pod)
	return view.InstanceOf(node)
}
