// Package config gathers the knobs of every package, reads them from the environment, checks all of them at
// once, and prints the reference.
package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v10"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/lifecycle"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

//go:generate go run ../../cmd/agent --help-markdown ../../docs/configuration.md

// Agent is everything that a user can set for the agent, by environment variables. The tag help says in plain
// words what a variable is for; the reference is made of it.
type Agent struct {
	ClusterName   string `env:"CLUSTER_NAME,required,notEmpty" help:"Name of this cluster, as the tags of its Auto Scaling groups have it (kubernetes.io/cluster/NAME, k8s.io/cluster-autoscaler/NAME or eks:cluster-name). Messages for groups of other clusters are left to their owner."`
	ListenAddress string `env:"LISTEN_ADDRESS" envDefault:":8080" help:"Address that /metrics, /healthz and /readyz are served on."`

	PodNamespace string `env:"POD_NAMESPACE" envDefault:"" help:"Namespace of the pod that the agent runs in, from the downward API. With POD_NAME it lets the agent move its own pod last. Empty outside a cluster."`
	PodName      string `env:"POD_NAME" envDefault:"" help:"Name of the pod that the agent runs in, from the downward API. Empty outside a cluster."`

	Queue queue.Config     `envPrefix:"QUEUE_"`
	Hook  lifecycle.Config `envPrefix:"HOOK_"`
	Node  node.Config      `envPrefix:"NODE_"`
	Drain drain.Config     `envPrefix:"DRAIN_"`
	Log   observe.Config   `envPrefix:"LOG_"`
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
	if err := env.ParseWithOptions(&c, env.Options{Environment: values}); err != nil && len(errs) == 0 {
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

func (c Agent) validate() error {
	var errs []error
	if !isAddress(c.ListenAddress) {
		errs = append(errs, fmt.Errorf("LISTEN_ADDRESS is %q: must be HOST:PORT or :PORT", c.ListenAddress))
	}
	return errors.Join(append(errs, c.Queue.Validate(), c.Hook.Validate(), c.Node.Validate(), c.Drain.Validate(),
		c.Log.Validate())...)
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
