// Package config gathers the knobs of every package, reads them from the environment, checks all of them at
// once, and prints the reference.
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

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/lead"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

//go:generate go run ../../cmd/agent --help-markdown ../../docs/configuration.md

// Agent is everything that a user can set for the agent, by environment variables. The tag help says in plain
// words what a variable is for; the reference is made of it.
type Agent struct {
	ClusterName   string `env:"CLUSTER_NAME,required,notEmpty" help:"Name of this cluster, as the tags of its Auto Scaling groups have it (kubernetes.io/cluster/NAME, k8s.io/cluster-autoscaler/NAME or eks:cluster-name). Messages for groups of other clusters are left to their owner."`
	ListenAddress string `env:"LISTEN_ADDRESS" envDefault:":8080" help:"Address that /metrics, /healthz and /readyz are served on."`

	PodNamespace string `env:"POD_NAMESPACE" envDefault:"" help:"Namespace of the pod that the agent runs in, from the downward API. With POD_NAME it lets the agent move its own pod last, and it is where the replicas' Lease is. Empty outside a cluster."`
	NodeName     string `env:"NODE_NAME" envDefault:"" help:"Name of the node that the agent runs on, from the downward API. It lets a leader hand over before its own node is drained. Empty outside a cluster."`
	PodName      string `env:"POD_NAME" envDefault:"" help:"Name of the pod that the agent runs in, from the downward API. Empty outside a cluster."`

	ResyncInterval time.Duration `env:"RESYNC_INTERVAL" envDefault:"3m" help:"Time between two looks at every instance of the cluster's groups, for terminations and launches that no message told of, and for nodes whose instance lives on."`
	DryRun         bool          `env:"DRY_RUN" envDefault:"false" help:"Whether everything is read, decided, logged and counted, and nothing is changed: no node, no pod, no lifecycle action. Messages stay in hand until the agent stops, and then return to the queue, so give a dry run a queue of its own."`

	Queue  queue.Config       `envPrefix:"QUEUE_"`
	Event  event.Config       `envPrefix:"EVENT_"`
	Hook   autoscaling.Config `envPrefix:"HOOK_"`
	Node   node.Config        `envPrefix:"NODE_"`
	Drain  drain.Config       `envPrefix:"DRAIN_"`
	Launch launch.Config      `envPrefix:"LAUNCH_"`
	Leader lead.Config        `envPrefix:"LEADER_"`
	Log    observe.Config     `envPrefix:"LOG_"`
}

// ReadAgent returns the agent's configuration in the environment, given as KEY=VALUE. The error is Mistakes,
// and names all of them.
func ReadAgent(environ []string) (Agent, error) {
	values := env.ToMap(environ)
	unread, errs := unreadable(values)
	for _, name := range unread {
		delete(values, name) // its default stands in for it, so that the others can be checked
	}
	var c Agent
	options := env.Options{Environment: values, FuncMap: parsers()}
	if err := env.ParseWithOptions(&c, options); err != nil && len(errs) == 0 {
		return Agent{}, Mistakes{err}
	}
	for _, err := range flatten(c.validate()) {
		if name, _, _ := strings.Cut(err.Error(), " "); !slices.Contains(unread, name) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return Agent{}, Mistakes(errs)
	}
	return c, nil
}

// parsers read the types that the library would not read as we do: it takes the space after a comma for a
// part of the name.
func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[[]string](): func(v string) (any, error) { return text.Split(v), nil },
	}
}

func (c Agent) validate() error {
	var errs []error
	if !isAddress(c.ListenAddress) {
		errs = append(errs, fmt.Errorf("LISTEN_ADDRESS is %q: must be HOST:PORT or :PORT", c.ListenAddress))
	}
	if c.ResyncInterval < time.Second || c.ResyncInterval > time.Hour {
		errs = append(errs, fmt.Errorf("RESYNC_INTERVAL is %v: must be from 1s to 1h", c.ResyncInterval))
	}
	return errors.Join(append(errs, c.Queue.Validate(), c.Event.Validate(), c.Hook.Validate(), c.Node.Validate(),
		c.Drain.Validate(), c.Launch.Validate(), c.Leader.Validate(c.PodNamespace), c.Log.Validate())...)
}

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// Mistakes is everything that is wrong with a configuration.
type Mistakes []error

// Error names each mistake on a line of its own.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, e := range m {
		lines[i] = "  " + e.Error()
	}
	return "the configuration has mistakes (agent --help lists the variables):\n" + strings.Join(lines, "\n")
}

// flatten lists the errors that errors.Join has joined, at any depth.
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
