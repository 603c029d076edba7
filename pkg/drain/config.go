package drain

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/node-drainer/node-drainer/internal/text"
)

// The values of Config.AtDeadline.
const (
	Delete = "delete" // delete pods, with the grace period that is left
	Leave  = "leave"  // let them end with the instance
)

// The values of Config.BarePods and Config.EmptyDirPods.
const (
	Evict = "evict"
	Wait  = "wait" // for the end of the pod, up to the deadline
)

// Config is what a user can set, by environment variables that begin with DRAIN_.
type Config struct {
	Timeout    time.Duration `env:"TIMEOUT" envDefault:"1h" min:"1s" max:"48h" why:"the longest that a hook can hold" help:"Longest time that a drain may take, from the cordon. The hook's global timeout (100 times its HeartbeatTimeout, 48h at most) bounds it as well. A drain for maintenance has until its start instead."`
	AtDeadline string        `env:"AT_DEADLINE" envDefault:"delete" values:"delete,leave" help:"What the agent does with a pod that is still running when its grace period must start to end by the deadline: delete (evict it, and delete it if a budget or a webhook refuses that) or leave it (it ends with the instance)."`
	Tiers      string        `env:"TIERS" envDefault:"0,2000000000,2000001000" help:"Order in which pods are evicted: each number is the lowest priority of a tier, which starts when the tiers before it are gone, at half of the drain at the latest. PRIORITY=DURATION bounds how long a tier may delay the next one, for example 0=10m,2000000000."`

	WaitForJobs    bool   `env:"WAIT_FOR_JOBS" envDefault:"false" help:"Wait for pods of a Job to finish, up to the deadline, instead of evicting them."`
	WaitSelector   string `env:"WAIT_SELECTOR" envDefault:"" help:"Label selector of pods that the agent waits for, up to the deadline, instead of evicting them. Empty selects none."`
	WaitNamespaces string `env:"WAIT_NAMESPACES" envDefault:"" help:"Namespaces, separated by commas, in which DRAIN_WAIT_FOR_JOBS and DRAIN_WAIT_SELECTOR apply. Empty selects all."`
	BarePods       string `env:"BARE_PODS" envDefault:"evict" values:"evict,wait" help:"What the agent does with pods that no controller would replace: evict them or wait for them to finish (up to the deadline)."`
	EmptyDirPods   string `env:"EMPTYDIR_PODS" envDefault:"evict" values:"evict,wait" help:"What the agent does with pods that would lose an emptyDir volume on disk: evict them or wait for them to finish (up to the deadline)."`
	SingleReplicas string `env:"SINGLE_REPLICAS" envDefault:"evict" values:"evict,restart" help:"What the agent does with the only pod of a Deployment: evict it, or restart the Deployment, so that the new pod is Ready before the old one ends. The chart then grants the agent to patch Deployments."`

	AnnotationNamespaces string        `env:"ANNOTATION_NAMESPACES" envDefault:"" help:"Namespaces, separated by commas, whose pods may delay their eviction by annotations. In other namespaces these are ignored. Empty selects all."`
	AnnotationTimeout    time.Duration `env:"ANNOTATION_TIMEOUT" envDefault:"48h" min:"0s" max:"720h" help:"How long after the taint an annotation may delay the eviction of its pod at most. 0s ignores these annotations."`

	ForceSpacing   time.Duration `env:"FORCE_SPACING" envDefault:"30s" min:"0s" max:"1h" help:"Time between two removals of pods of one PodDisruptionBudget before the deadline. The first pods are removed that much earlier, but never in the first half of the drain."`
	ForceUnhealthy time.Duration `env:"FORCE_UNHEALTHY_AFTER" envDefault:"0s" min:"0s" max:"48h" help:"How long a pod must have been not Ready to be deleted although its PodDisruptionBudget allows no disruption. 0s is never (before the deadline)."`
	StuckAfter     time.Duration `env:"STUCK_AFTER" envDefault:"5m" min:"0s" max:"48h" help:"How long after the end of its grace period the drain stops waiting for a pod that is still terminating; on a node that is not Ready 2s. 0s is never (before the deadline)."`

	Settle           time.Duration `env:"SETTLE" envDefault:"5s" min:"0s" max:"1m" help:"Shortest time between the taint and the end of a drain, since the scheduler may see the taint late. While it is later than that, drains take longer, 2m at most."`
	EvictionDelay    time.Duration `env:"EVICTION_DELAY" envDefault:"0s" min:"0s" max:"1h" help:"Time between the taint and the first eviction, so that load balancers stop sending to the node before its pods end. Half of the drain at most, and none when less than 3 minutes are left."`
	LoadBalancerWait time.Duration `env:"LOAD_BALANCER_WAIT" envDefault:"0s" min:"0s" max:"1h" help:"Shortest time between the taint and the end of a drain, for load balancers that are slow to deregister the node. Pods are evicted meanwhile."`
	VolumeTimeout    time.Duration `env:"VOLUME_TIMEOUT" envDefault:"2m" min:"0s" max:"1h" help:"How long after the end of the last pod the drain waits until the volumes of the pods are detached. 0s does not wait."`
	HandOverTimeout  time.Duration `env:"HAND_OVER_TIMEOUT" envDefault:"1m" min:"0s" max:"1h" help:"How long a pod with the annotation node-drainer.io/hand-over may refuse, or not answer, before it is evicted as others are. 0s asks no pod."`
	BlockedAfter     time.Duration `env:"BLOCKED_AFTER" envDefault:"1m" min:"0s" max:"1h" help:"How long a pod must have been waiting, for its PodDisruptionBudget or to finish, before an Event reports it. A budget that can never allow a disruption is reported at once."`
}

// Validate returns everything that is wrong with the configuration, except for what the tags of its fields
// exclude, which is checked when it is read.
func (c Config) Validate() error {
	var errs []error
	if _, err := parseTiers(c.Tiers); err != nil {
		errs = append(errs, fmt.Errorf("DRAIN_TIERS is %q: %w", c.Tiers, err))
	}
	if _, err := labels.Parse(c.WaitSelector); err != nil {
		errs = append(errs, fmt.Errorf("DRAIN_WAIT_SELECTOR is %q: %w", c.WaitSelector, err))
	}
	for _, list := range []struct{ name, value string }{
		{"DRAIN_WAIT_NAMESPACES", c.WaitNamespaces}, {"DRAIN_ANNOTATION_NAMESPACES", c.AnnotationNamespaces},
	} {
		for _, name := range text.Split(list.value) {
			if len(validation.IsDNS1123Label(name)) > 0 {
				errs = append(errs, fmt.Errorf("%s is %q: no namespace can have the name %q", list.name, list.value, name))
			}
		}
	}
	return errors.Join(errs...)
}

// Tier is a group of pods that are evicted together.
type Tier struct {
	From  int32         // the lowest priority of its pods; the first tier has those below as well
	Bound time.Duration // how long it may delay the next one; zero is until its last pod is gone
}

// parseTiers parses PRIORITY or PRIORITY=DURATION, separated by commas, in ascending order.
func parseTiers(s string) ([]Tier, error) {
	var tiers []Tier
	for item := range strings.SplitSeq(s, ",") {
		t, err := parseTier(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		if n := len(tiers); n > 0 && t.From <= tiers[n-1].From {
			return nil, fmt.Errorf("priorities must ascend: %d comes after %d", t.From, tiers[n-1].From)
		}
		tiers = append(tiers, t)
	}
	return tiers, nil
}

func parseTier(item string) (Tier, error) {
	priority, bound, bounded := strings.Cut(item, "=")
	n, err := strconv.ParseInt(priority, 10, 32)
	if err != nil {
		return Tier{}, fmt.Errorf("priority %q: must be a whole number from %d to %d",
			priority, math.MinInt32, math.MaxInt32)
	}
	t := Tier{From: int32(n)}
	if !bounded {
		return t, nil
	}
	if t.Bound, err = time.ParseDuration(bound); err != nil || t.Bound <= 0 {
		return Tier{}, fmt.Errorf("duration %q: must be positive and have a unit, for example 90s or 15m", bound)
	}
	return t, nil
}
