// Package config reads the configuration of all packages from the environment, validates it, and prints its
// reference.
package config

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v10"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/lead"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/notify"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/queue"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Agent is the configuration of the agent. Tags of its fields limit their values: values lists all that are
// allowed; min and max are the bounds, and why is the reason for max. The value of a field with the tag secret must not
// be shown, and comes from a Secret. The reference is generated from the tag help.
type Agent struct {
	ClusterName   string `env:"CLUSTER_NAME,required,notEmpty" help:"Name of this cluster in the tags of its groups: kubernetes.io/cluster/NAME, k8s.io/cluster-autoscaler/NAME or eks:cluster-name."`
	ListenAddress string `env:"LISTEN_ADDRESS" envDefault:":8080" help:"Address of /metrics, /healthz and /readyz."`

	PodNamespace string `env:"POD_NAMESPACE" envDefault:"" help:"Namespace of the agent's pod, from the downward API; the default namespace of the Lease. Empty outside a cluster."`
	NodeName     string `env:"NODE_NAME" envDefault:"" help:"Node of the agent, from the downward API. A leader hands over before it is drained. Empty outside a cluster."`
	PodName      string `env:"POD_NAME" envDefault:"" help:"Pod of the agent, from the downward API; evicted last. Empty outside a cluster."`

	ResyncInterval       time.Duration `env:"RESYNC_INTERVAL" envDefault:"3m" min:"1s" max:"1h" help:"Time between two resyncs, which find terminations and launches without a message, and marked nodes that stay."`
	AutoscalerDeployment string        `env:"AUTOSCALER_DEPLOYMENT" envDefault:"" help:"Deployment of the Cluster Autoscaler, NAMESPACE/NAME, to scale back if a trigger that has paused it was killed. Empty: none."`
	HistoryConfigMap     string        `env:"HISTORY_CONFIGMAP" envDefault:"" help:"ConfigMap in POD_NAMESPACE, which must exist, for the records of the last 200 drains, which trigger history shows. Empty: they are only in the log."`
	DryRun               bool          `env:"DRY_RUN" envDefault:"false" help:"Read, decide and log, and change nothing. Use a separate queue."`

	Queue  queue.Config       `envPrefix:"QUEUE_"`
	Event  event.Config       `envPrefix:"EVENT_"`
	Hook   autoscaling.Config `envPrefix:"HOOK_"`
	Node   node.Config        `envPrefix:"NODE_"`
	Drain  drain.Config       `envPrefix:"DRAIN_"`
	Turns  Turns              `envPrefix:"DRAIN_"`
	Launch launch.Config      `envPrefix:"LAUNCH_"`
	Leader lead.Config        `envPrefix:"LEADER_"`
	Notify notify.Config      `envPrefix:"NOTIFY_"`
	Log    observe.Config     `envPrefix:"LOG_"`
}

// Turns bound the drains for what can wait.
type Turns struct {
	Max        refresh.Amount `env:"MAX_CONCURRENT" envDefault:"10%" help:"How many nodes, as a number or a share, are drained at once for what can wait: maintenance, rebalance recommendations and requests."`
	MaxPerZone refresh.Amount `env:"MAX_CONCURRENT_PER_ZONE" envDefault:"100%" help:"The same for the nodes of one Availability Zone."`
}

// ReadAgent reads the agent's configuration from the environment, given as KEY=VALUE. Its error is Mistakes,
// with all of them.
func ReadAgent(environ []string) (Agent, error) {
	values := env.ToMap(environ)
	invalid, errs := checkAll(values)
	for _, name := range invalid {
		delete(values, name) // the default replaces it, so that the other variables can be validated
	}
	var c Agent
	options := env.Options{Environment: values, FuncMap: parsers()}
	if err := env.ParseWithOptions(&c, options); err != nil && len(errs) == 0 {
		return Agent{}, Mistakes{err}
	}
	for _, err := range flatten(c.validate()) {
		if name, _, _ := strings.Cut(err.Error(), " "); !slices.Contains(invalid, name) {
			errs = append(errs, err)
		}
	}
	if errs = append(errs, unknownVariables(values)...); len(errs) > 0 {
		return Agent{}, Mistakes(errs)
	}
	return c, nil
}

// parsers returns those of lists, in which the library would keep the space after a comma, and of amounts.
func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[[]string]():       func(v string) (any, error) { return text.Split(v), nil },
		reflect.TypeFor[refresh.Amount](): func(v string) (any, error) { return refresh.ParseAmount(v) },
	}
}

func (c Agent) validate() error {
	var errs []error
	if !isAddress(c.ListenAddress) {
		errs = append(errs, fmt.Errorf("LISTEN_ADDRESS is %q: must be HOST:PORT or :PORT", c.ListenAddress))
	}
	if d := c.AutoscalerDeployment; d != "" && !isNamespaced(d) {
		errs = append(errs, fmt.Errorf("AUTOSCALER_DEPLOYMENT is %q: must be NAMESPACE/NAME", d))
	}
	if c.HistoryConfigMap != "" && c.PodNamespace == "" {
		errs = append(errs, errors.New("HISTORY_CONFIGMAP is set and POD_NAMESPACE is not: set both, or neither"))
	}
	return errors.Join(append(errs, c.Queue.Validate(), c.Hook.Validate(), c.Node.Validate(), c.Drain.Validate(),
		c.Launch.Validate(), c.Leader.Validate(c.PodNamespace), c.Notify.Validate())...)
}

// isNamespaced reports whether the text is NAMESPACE/NAME.
func isNamespaced(s string) bool {
	namespace, name, ok := strings.Cut(s, "/")
	return ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// Mistakes are all errors of a configuration.
type Mistakes []error

// Error names each mistake on a line of its own.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, e := range m {
		lines[i] = "  " + e.Error()
	}
	return "the configuration has mistakes (agent --help lists the variables):\n" + strings.Join(lines, "\n")
}

// flatten returns the errors that errors.Join has joined, at any depth.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}
