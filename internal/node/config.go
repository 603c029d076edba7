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
	TaintKey            string        `env:"TAINT_KEY" envDefault:"node-drainer.io/terminating" help:"Key of the taint on draining nodes."`
	TaintEffect         string        `env:"TAINT_EFFECT" envDefault:"NoSchedule" values:"NoSchedule,PreferNoSchedule,NoExecute" help:"NoSchedule, PreferNoSchedule or NoExecute. With NoExecute Kubernetes deletes pods at once and ignores PodDisruptionBudgets."`
	Cordon              bool          `env:"CORDON" envDefault:"true" help:"Make the node unschedulable as well: keeps off pods that tolerate only the taint. Required with PreferNoSchedule."`
	ExcludeFromLB       string        `env:"EXCLUDE_FROM_LOAD_BALANCERS" envDefault:"early" values:"early,late,off" help:"When the node gets the label node.kubernetes.io/exclude-from-external-load-balancers: early (with the taint), late (when drained), or off."`
	Selector            string        `env:"SELECTOR" envDefault:"" help:"Label selector of the Nodes that this agent manages, such as topology.kubernetes.io/region=eu-central-1. Set it with several accounts or Regions. Empty: all."`
	RegistrationTimeout time.Duration `env:"REGISTRATION_TIMEOUT" envDefault:"5m" min:"0s" max:"1h" help:"How long a termination or a notice waits for a node to register."`
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
