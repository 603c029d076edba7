package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// When the label node.kubernetes.io/exclude-from-external-load-balancers is added to a node.
const (
	Early = "early" // with the taint, before the first eviction
	Late  = "late"  // when the node is drained
	Off   = "off"   // never
)

// Config is what a user can set, by environment variables that begin with NODE_.
type Config struct {
	TaintKey            string        `env:"TAINT_KEY" envDefault:"node-drainer.io/terminating" help:"Key of the taint that the agent adds to a node before it drains it. Its value is the reason."`
	TaintEffect         string        `env:"TAINT_EFFECT" envDefault:"NoSchedule" values:"NoSchedule,PreferNoSchedule,NoExecute" help:"Effect of that taint: NoSchedule, PreferNoSchedule, or NoExecute. With NoExecute Kubernetes deletes pods at once and ignores PodDisruptionBudgets."`
	Cordon              bool          `env:"CORDON" envDefault:"true" help:"Make the node unschedulable as well, which also keeps away pods that tolerate the taint of the agent but not node.kubernetes.io/unschedulable. Required if NODE_TAINT_EFFECT is PreferNoSchedule."`
	ExcludeFromLB       string        `env:"EXCLUDE_FROM_LOAD_BALANCERS" envDefault:"early" values:"early,late,off" help:"When the label node.kubernetes.io/exclude-from-external-load-balancers is added to the node: early (with the taint), late (when the node is drained), or off."`
	Selector            string        `env:"SELECTOR" envDefault:"" help:"Label selector of the Nodes that this agent manages, for example topology.kubernetes.io/region=eu-central-1. Empty selects all. Set it if the nodes of the cluster are in several AWS accounts or Regions, each with its own agent."`
	RegistrationTimeout time.Duration `env:"REGISTRATION_TIMEOUT" envDefault:"5m" min:"0s" max:"1h" help:"How long the hook of a terminating instance of this cluster is held, or a notice is kept, if no node has registered for it."`
}

// Validate returns everything that is wrong with the configuration, except for what the tags of its fields
// exclude, which is checked when it is read.
func (c Config) Validate() error {
	var errs []error
	if problems := validation.IsQualifiedName(c.TaintKey); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("NODE_TAINT_KEY is %q: %s", c.TaintKey, strings.Join(problems, "; ")))
	}
	if _, err := newSelector(c.Selector); err != nil {
		errs = append(errs, err)
	}
	if !c.Cordon && c.TaintEffect == string(corev1.TaintEffectPreferNoSchedule) {
		errs = append(errs, errors.New("NODE_CORDON is false and NODE_TAINT_EFFECT is PreferNoSchedule: "+
			"evicted pods could return to the node again and again"))
	}
	return errors.Join(errs...)
}
