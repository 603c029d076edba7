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
	Timeout    time.Duration `env:"TIMEOUT" envDefault:"1h" min:"1s" max:"48h" why:"the longest that a hook can hold" help:"Longest time of a drain. The hook's global timeout (100 times its HeartbeatTimeout, 48h at most) bounds it as well."`
	AtDeadline string        `env:"AT_DEADLINE" envDefault:"delete" values:"delete,leave" help:"What happens to pods that are left when their grace period must start: delete (evict, or delete if that is refused) or leave (they end with the instance)."`
	Tiers      string        `env:"TIERS" envDefault:"0,2000000000,2000001000" help:"Lowest priority of each tier of pods; a tier starts when earlier ones are gone, at half of the drain at the latest. PRIORITY=DURATION bounds how long it may delay the next, for example 0=10m,2000000000."`

	WaitForJobs    bool   `env:"WAIT_FOR_JOBS" envDefault:"false" help:"Wait for pods of Jobs to finish, until the deadline."`
	WaitSelector   string `env:"WAIT_SELECTOR" envDefault:"" help:"Label selector of pods to wait for, until the deadline. Empty: none."`
	WaitNamespaces string `env:"WAIT_NAMESPACES" envDefault:"" help:"Namespaces, separated by commas, of DRAIN_WAIT_FOR_JOBS and DRAIN_WAIT_SELECTOR. Empty: all."`
	BarePods       string `env:"BARE_PODS" envDefault:"evict" values:"evict,wait" help:"Pods that no controller would replace: evict, or wait until the deadline."`
	EmptyDirPods   string `env:"EMPTYDIR_PODS" envDefault:"evict" values:"evict,wait" help:"Pods that would lose an emptyDir volume on disk: evict, or wait until the deadline."`
	SingleReplicas string `env:"SINGLE_REPLICAS" envDefault:"evict" values:"evict,restart" help:"The only pod of a Deployment: evict it, or restart the Deployment, so that the new pod is Ready first."`

	AnnotationNamespaces string        `env:"ANNOTATION_NAMESPACES" envDefault:"" help:"Namespaces, separated by commas, whose pods may delay their eviction by annotations. Empty: all."`
	AnnotationTimeout    time.Duration `env:"ANNOTATION_TIMEOUT" envDefault:"48h" min:"0s" max:"720h" help:"How long such an annotation may delay an eviction. 0s ignores them."`

	ForceSpacing   time.Duration `env:"FORCE_SPACING" envDefault:"30s" min:"0s" max:"1h" help:"Time between two removals of blocked pods of one PodDisruptionBudget, which begin that much earlier."`
	ForceUnhealthy time.Duration `env:"FORCE_UNHEALTHY_AFTER" envDefault:"0s" min:"0s" max:"48h" help:"How long a pod must have been not Ready to be deleted despite its PodDisruptionBudget. 0s is never."`
	StuckAfter     time.Duration `env:"STUCK_AFTER" envDefault:"5m" min:"0s" max:"48h" help:"How long after its grace period a drain waits for a pod that is still terminating. 0s is until the deadline."`

	Settle           time.Duration `env:"SETTLE" envDefault:"5s" min:"0s" max:"1m" help:"Shortest time of a drain; while the scheduler sees taints later than that, up to 2m."`
	EvictionDelay    time.Duration `env:"EVICTION_DELAY" envDefault:"0s" min:"0s" max:"1h" help:"Time between the taint and the first eviction, for load balancers. Half of the drain at most, and none when less than 3 minutes are left."`
	LoadBalancerWait time.Duration `env:"LOAD_BALANCER_WAIT" envDefault:"0s" min:"0s" max:"1h" help:"Shortest time of a drain, for load balancers that deregister slowly; pods are evicted meanwhile."`
	VolumeTimeout    time.Duration `env:"VOLUME_TIMEOUT" envDefault:"2m" min:"0s" max:"1h" help:"How long the drain waits for volumes to be detached."`
	HandOverTimeout  time.Duration `env:"HAND_OVER_TIMEOUT" envDefault:"1m" min:"0s" max:"1h" help:"How long a pod with the annotation node-drainer.io/hand-over may refuse, or not answer. 0s asks no pod."`
	BlockedAfter     time.Duration `env:"BLOCKED_AFTER" envDefault:"1m" min:"0s" max:"1h" help:"How long a pod must have been waiting before an Event reports it."`
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
