package launch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/node-drainer/node-drainer/internal/text"
)

// What becomes of a launch when the Node cannot serve in time.
const (
	Abandon  = "abandon"  // the group terminates the instance and launches another
	Continue = "continue" // the instance goes into service as it is
)

// Config is what a user can set, by environment variables that begin with LAUNCH_.
type Config struct {
	Timeout       time.Duration `env:"TIMEOUT" envDefault:"15m" help:"How long a launching instance may take, from the hook's message, until its node can serve. The hook's global timeout (100 times its HeartbeatTimeout, 48h at most) bounds it as well."`
	AtTimeout     string        `env:"AT_TIMEOUT" envDefault:"abandon" values:"abandon,continue" help:"What becomes of a launch when the node not ready in time: abandon (the group terminates the instance, and an Instance Refresh goes no further with a bad image) or continue (the instance goes into service as it is)."`
	DaemonSets    bool          `env:"DAEMONSETS" envDefault:"true" help:"Whether the node must run a Ready pod of each DaemonSet that belongs on it. A DaemonSet with the annotation node-drainer.io/ignore-at-launch: \"true\" is not waited for."`
	StartupTaints string        `env:"STARTUP_TAINTS" envDefault:"node.kubernetes.io/not-ready, node.kubernetes.io/unreachable, node.kubernetes.io/network-unavailable, node.kubernetes.io/unschedulable, node.cloudprovider.kubernetes.io/uninitialized, node.cloudprovider.kubernetes.io/shutdown, node.cilium.io/agent-not-ready, ebs.csi.aws.com/agent-not-ready, efs.csi.aws.com/agent-not-ready, fsx.csi.aws.com/agent-not-ready, s3.csi.aws.com/agent-not-ready, startup-taint.cluster-autoscaler.kubernetes.io/*, ignore-taint.cluster-autoscaler.kubernetes.io/*" help:"Keys of taints, separated by commas, that somebody takes off a new node when it can serve, and that are waited for. A * at the end of a key stands for any rest."`
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Timeout < time.Second || c.Timeout > 48*time.Hour {
		errs = append(errs, fmt.Errorf(
			"LAUNCH_TIMEOUT is %v: must be from 1s to 48h, the longest that a hook can hold", c.Timeout))
	}
	if c.AtTimeout != Abandon && c.AtTimeout != Continue {
		errs = append(errs, fmt.Errorf("LAUNCH_AT_TIMEOUT is %q: must be abandon or continue", c.AtTimeout))
	}
	for _, key := range text.Split(c.StartupTaints) {
		if problem := misfit(key); problem != "" {
			errs = append(errs, fmt.Errorf("LAUNCH_STARTUP_TAINTS is %q: %q is no key of a taint: %s",
				c.StartupTaints, key, problem))
			break
		}
	}
	return errors.Join(errs...)
}

// misfit says why the key is none of a taint, or of the beginning of one; empty if it is.
func misfit(key string) string {
	whole := key
	if prefix, open := strings.CutSuffix(key, "*"); open {
		whole = prefix + "x"
	}
	return strings.Join(validation.IsQualifiedName(whole), "; ")
}

// Outcome is how a launch ended.
type Outcome string

// The outcomes of a launch.
const (
	Ready        Outcome = "ready"         // the node can serve: completed with CONTINUE
	Pooled       Outcome = "pooled"        // the instance goes to the warm pool: completed with CONTINUE
	Abandoned    Outcome = "abandoned"     // the node could not serve in time: completed with ABANDON
	Continued    Outcome = "continued"     // the node could not serve in time: completed with CONTINUE all the same
	Gone         Outcome = "gone"          // the launch was over before, or ended meanwhile
	Unconfirmed  Outcome = "unconfirmed"   // Auto Scaling knows of no such launch
	OtherCluster Outcome = "other-cluster" // the instance belongs to another cluster
	Interrupted  Outcome = "interrupted"   // this process is stopping; another goes on
)

// Outcomes lists every outcome, for those who count them.
func Outcomes() []Outcome {
	return []Outcome{Ready, Pooled, Abandoned, Continued, Gone, Unconfirmed, OtherCluster, Interrupted}
}
