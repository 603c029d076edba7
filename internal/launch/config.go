package launch

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/node-drainer/node-drainer/internal/text"
)

// How a launch ends when the Node is not ready for pods in time.
const (
	Abandon  = "abandon"  // the group terminates the instance and launches another
	Continue = "continue" // the instance goes into service as it is
)

// Config is set by environment variables that begin with LAUNCH_.
type Config struct {
	Timeout           time.Duration `env:"TIMEOUT" envDefault:"15m" min:"1s" max:"48h" why:"the longest that a hook can hold" help:"How long an instance may take until its node is ready. The hook's global timeout bounds it as well."`
	AtTimeout         string        `env:"AT_TIMEOUT" envDefault:"abandon" values:"abandon,continue" help:"What happens then: abandon (the group terminates the instance) or continue (it goes into service)."`
	DaemonSets        bool          `env:"DAEMONSETS" envDefault:"true" help:"Wait for DaemonSets, except those with the annotation node-drainer.io/ignore-at-launch: \"true\"."`
	DaemonSetSelector string        `env:"DAEMONSET_SELECTOR" envDefault:"" help:"Label selector of these DaemonSets, or all. Empty: those of the priority class system-node-critical."`
	StartupTaints     string        `env:"STARTUP_TAINTS" envDefault:"node.kubernetes.io/not-ready, node.kubernetes.io/unreachable, node.kubernetes.io/network-unavailable, node.kubernetes.io/unschedulable, node.cloudprovider.kubernetes.io/uninitialized, node.cloudprovider.kubernetes.io/shutdown, node.cilium.io/agent-not-ready, ebs.csi.aws.com/agent-not-ready, efs.csi.aws.com/agent-not-ready, fsx.csi.aws.com/agent-not-ready, s3.csi.aws.com/agent-not-ready, readiness.k8s.io/*, startup-taint.cluster-autoscaler.kubernetes.io/*, ignore-taint.cluster-autoscaler.kubernetes.io/*" help:"Keys of taints, separated by commas, that launches wait to be removed. A * at the end matches any suffix."`
}

// AllDaemonSets is the LAUNCH_DAEMONSET_SELECTOR that selects all.
const AllDaemonSets = "all"

// selector returns which DaemonSets the configuration selects by labels; nil if by their priority class.
func (c Config) selector() (labels.Selector, error) {
	switch c.DaemonSetSelector {
	case "":
		return nil, nil
	case AllDaemonSets:
		return labels.Everything(), nil
	}
	s, err := labels.Parse(c.DaemonSetSelector)
	if err != nil {
		return nil, fmt.Errorf("LAUNCH_DAEMONSET_SELECTOR is %q: %w", c.DaemonSetSelector, err)
	}
	return s, nil
}

// Validate returns the first taint key or selector that is not valid as an error. What the tags of the fields
// exclude is checked when the configuration is read.
func (c Config) Validate() error {
	for _, key := range text.Split(c.StartupTaints) {
		if problem := keyProblem(key); problem != "" {
			return fmt.Errorf("LAUNCH_STARTUP_TAINTS is %q: %q is not a valid taint key: %s",
				c.StartupTaints, key, problem)
		}
	}
	_, err := c.selector()
	return err
}

// keyProblem returns why the key is not valid for a taint, or empty. It may end in a *.
func keyProblem(key string) string {
	whole := key
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		whole = prefix + "x"
	}
	return strings.Join(validation.IsQualifiedName(whole), "; ")
}

// Outcome is how a launch ended.
type Outcome string

// The outcomes of a launch.
const (
	Ready        Outcome = "ready"         // the node is ready for pods: completed with CONTINUE
	Pooled       Outcome = "pooled"        // the instance enters the warm pool: completed with CONTINUE
	Abandoned    Outcome = "abandoned"     // the node was not ready in time: completed with ABANDON
	Continued    Outcome = "continued"     // the node was not ready in time: completed with CONTINUE
	Gone         Outcome = "gone"          // the launch had ended before, or ended meanwhile
	Unconfirmed  Outcome = "unconfirmed"   // Auto Scaling does not know of this launch
	OtherCluster Outcome = "other-cluster" // the instance belongs to another cluster
	OtherAgent   Outcome = "other-agent"   // another agent handles the node or the hook
	Interrupted  Outcome = "interrupted"   // this process is stopping; another continues
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Ready, Pooled, Abandoned, Continued, Gone, Unconfirmed, OtherCluster, OtherAgent, Interrupted}
}
