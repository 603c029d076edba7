package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awscloudwatch "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseventbridge "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/node-drainer/node-drainer/internal/access"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/check"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// The exit codes of Check.
const (
	exitOK     = 0 // no check failed
	exitFailed = 1
	exitUsage  = 2 // wrong arguments or configuration
)

const (
	// checkTimeout bounds a check: some calls wait for their turn.
	checkTimeout = 5 * time.Minute
	// nodesTimeout is how long a check waits for the list of Nodes.
	nodesTimeout = 20 * time.Second
	// pageTimeout is how long a page may be not ok, as just after an installation.
	pageTimeout = time.Minute
	// longestPage bounds what is shown of a page.
	longestPage = 200
)

// checkHelp describes agent check.
const checkHelp = `Usage: agent check [--output text|json] [--url URL]

Checks the installation once, with the configuration of the agent: AWS, its permissions, the queue, EventBridge rules,
groups and hooks, the nodes and RBAC. It changes nothing. A line for each check says what was found; for a failed one,
which command fixes it.

  --output text|json   form of the results (default text)
  --url URL            also expect that this page answers 200, such as the /readyz of a running agent

Exit codes: 0 no check failed, 1 a check failed, 2 wrong arguments or configuration.
`

// checkArguments are the arguments of agent check.
type checkArguments struct{ output, url string }

func parseCheckArguments(args []string) (a checkArguments, err error) {
	flags := flag.NewFlagSet("agent check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&a.output, "output", "text", "")
	flags.StringVar(&a.url, "url", "", "")
	if err = flags.Parse(args); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err == nil && a.output != "text" && a.output != "json" {
		err = fmt.Errorf("--output is %q: must be text or json", a.output)
	}
	return a, err
}

// Check is agent check: it checks the installation once, and returns the exit code. args are those after check.
func Check(ctx context.Context, args, environ []string, version string, stdout, stderr io.Writer) int {
	arguments, err := parseCheckArguments(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(stdout, checkHelp)
		return exitOK
	}
	var cfg config.Agent
	if err == nil {
		cfg, err = config.ReadAgent(environ)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	results, err := runCheck(ctx, cfg, version)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitFailed
	}
	if arguments.url != "" {
		results = append(results, page(ctx, arguments.url))
	}
	write := check.WriteText
	if arguments.output == "json" {
		write = check.WriteJSON
	}
	if err := write(stdout, results); err != nil || check.Count(results, check.Failed) > 0 {
		return exitFailed
	}
	return exitOK
}

// runCheck checks the installation with clients of its own.
func runCheck(ctx context.Context, cfg config.Agent, version string) ([]check.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	awsConfig, err := cloud.Load(ctx, cloud.Config{})
	if err != nil {
		return nil, err
	}
	client, err := kubernetesClient(version, nil)
	if err != nil {
		return nil, err
	}
	nodes, err := node.New(client, cfg.Node)
	if err != nil {
		return nil, err
	}
	go nodes.Run(ctx)
	env := Environment{AWS: awsConfig, Kubernetes: client}
	hooks := autoscaling.New(newAutoScaling(env), cfg.Hook, cfg.Queue.URL, nil) // which holds no hook
	i := installation(cfg, env, nodes, hooks)
	i.Trials = !cfg.DryRun
	return check.Run(ctx, i), nil
}

// newAutoScaling returns a client without retries: package autoscaling retries, because it knows how long each call may
// take, and reports every failure.
func newAutoScaling(env Environment) *awsautoscaling.Client {
	return awsautoscaling.NewFromConfig(env.AWS, func(o *awsautoscaling.Options) { o.RetryMaxAttempts = 1 })
}

// installation is what a check reads, by way of the nodes and the groups of the agent.
func installation(cfg config.Agent, env Environment, nodes *node.Nodes, hooks *autoscaling.Hooks) check.Installation {
	return check.Installation{
		Config: cfg, Region: env.AWS.Region,
		AWS: awsReader{
			Inspector: autoscaling.NewInspector(hooks), aws: env.AWS, queue: sqs.NewFromConfig(env.AWS), url: cfg.Queue.URL,
			instances: awsec2.NewFromConfig(env.AWS), alarms: awscloudwatch.NewFromConfig(env.AWS),
			rules: awseventbridge.NewFromConfig(env.AWS),
		},
		Kubernetes: clusterReader{access.New(env.Kubernetes), nodes},
	}
}

// clusterReader reads what a check needs of the cluster.
type clusterReader struct {
	access.Reviewer
	nodes *node.Nodes
}

// Nodes counts the Nodes when they have been listed.
func (r clusterReader) Nodes(ctx context.Context) (node.Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	if err := r.nodes.WaitForSync(ctx); err != nil {
		return node.Survey{}, fmt.Errorf("not listed within %v: %w", nodesTimeout, err)
	}
	return node.SurveyOf(r.nodes), nil
}

// page expects that a page answers 200 within a minute.
func page(ctx context.Context, url string) check.Result {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	for {
		result := getPage(ctx, url)
		if result.Status == check.OK || !retry.Sleep(ctx, time.Second) {
			return result
		}
	}
}

func getPage(ctx context.Context, url string) check.Result {
	result := check.Result{
		Check: "agent", Status: check.Failed,
		Fix: "kubectl get pods --all-namespaces --selector app.kubernetes.io/component=agent, and kubectl logs of those " +
			"that are not ready",
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		result.Found = err.Error()
		return result
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		result.Found = err.Error()
		return result
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestPage))
	result.Found = fmt.Sprintf("%s answers %d: %s", url, response.StatusCode, strings.TrimSpace(string(body)))
	if response.StatusCode == http.StatusOK {
		result.Status, result.Fix = check.OK, ""
	}
	return result
}
