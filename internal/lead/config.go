package lead

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
)

// Config is what a user can set, by environment variables that begin with LEADER_.
type Config struct {
	Election      bool          `env:"ELECTION" envDefault:"true" help:"Elect a leader among the replicas by a Lease. false: this process works at once."`
	Namespace     string        `env:"NAMESPACE" envDefault:"" help:"Namespace of the Lease. Empty: POD_NAMESPACE."`
	LeaseName     string        `env:"LEASE_NAME" envDefault:"node-drainer" help:"Name of the Lease. Agents of two queues in one namespace need two."`
	LeaseDuration time.Duration `env:"LEASE_DURATION" envDefault:"15s" help:"How long standbys wait after the last renewal."`
	RenewDeadline time.Duration `env:"RENEW_DEADLINE" envDefault:"10s" help:"How long a leader tries to renew the Lease before it stops working."`
	RetryPeriod   time.Duration `env:"RETRY_PERIOD" envDefault:"1s" help:"Time between two attempts to renew the Lease."`
}

// longestLease bounds how long there is no leader after one was killed.
const longestLease = 5 * time.Minute

// Validate returns everything that is wrong with the configuration. podNamespace is the namespace that the
// process runs in, or empty if that is not known.
func (c Config) Validate(podNamespace string) error {
	if !c.Election {
		return nil
	}
	var errs []error
	if namespace := c.In(podNamespace).Namespace; namespace == "" {
		errs = append(errs, errors.New("LEADER_NAMESPACE is required where POD_NAMESPACE is not set: "+
			"set one of them to the namespace of the Lease, or LEADER_ELECTION=false if no other agent runs"))
	} else if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("LEADER_NAMESPACE is %q: %s", namespace, strings.Join(problems, "; ")))
	}
	if problems := validation.IsDNS1123Subdomain(c.LeaseName); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("LEADER_LEASE_NAME is %q: %s", c.LeaseName, strings.Join(problems, "; ")))
	}
	return errors.Join(append(errs, c.validateTimes())...)
}

// validateTimes checks what client-go requires of the times, and that the Lease can hold them.
func (c Config) validateTimes() error {
	var errs []error
	if d := c.LeaseDuration; d < time.Second || d > longestLease || d%time.Second != 0 {
		errs = append(errs, fmt.Errorf("LEADER_LEASE_DURATION is %v: must be whole seconds, from 1s to %v",
			d, longestLease))
	}
	if c.RetryPeriod < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("LEADER_RETRY_PERIOD is %v: must be 10ms or more", c.RetryPeriod))
	}
	least := time.Duration(leaderelection.JitterFactor * float64(c.RetryPeriod))
	if c.RenewDeadline <= least || c.RenewDeadline >= c.LeaseDuration {
		errs = append(errs, fmt.Errorf("LEADER_RENEW_DEADLINE is %v: must be more than %v, which is 1.2 times "+
			"LEADER_RETRY_PERIOD, and less than LEADER_LEASE_DURATION, which is %v",
			c.RenewDeadline, least, c.LeaseDuration))
	}
	return errors.Join(errs...)
}

// In returns the configuration with the namespace filled in.
func (c Config) In(podNamespace string) Config {
	if c.Namespace == "" {
		c.Namespace = podNamespace
	}
	return c
}
