package awsim

import (
	"slices"
	"strconv"
	"time"
)

const preferencesPrefix = "Preferences."

// Defaults and limits of an Instance Refresh.
const (
	defaultMinHealthy      = 90
	defaultCheckpointDelay = time.Hour
	maxBakeTime            = 172800 // Seconds.
)

func (a refreshAPI) startInstanceRefresh(r *reader) (any, error) {
	var desired *source
	if c := readSource(r, "DesiredConfiguration.", source{}); c.isSet() {
		desired = &c
	}
	checkStrategy(r, desired)
	return a.changeRefresh(r, func(g *group) (*refresh, error) {
		p := readPreferences(r, g)
		if p.autoRollback && desired == nil {
			r.fail(errorf("ValidationError", "AutoRollback requires a desired configuration."))
		}
		if g.source.byRequirements() && (p.skipMatching || desired != nil) { // The code and the text are a guess.
			r.fail(errorf("ValidationError", "Skip matching and a desired configuration are not supported for groups that "+
				"use attribute-based instance type selection."))
		}
		if r.err != nil {
			return nil, r.err
		}
		return a.refreshes.startRefresh(g, p, desired)
	})
}

type refreshIDXML struct {
	InstanceRefreshID string `xml:"InstanceRefreshId"`
}

// readPreferences reads the preferences of a refresh. The defaults are the settings of the group, or else
// those of AWS.
func readPreferences(r *reader, g *group) preferences {
	p := preferences{min: defaultMinHealthy, warmup: g.gracePeriod, call: r}
	const prefix = preferencesPrefix
	policy := g.maintenance()
	if g.policy == nil && (r.has(prefix+"MinHealthyPercentage") || r.has(prefix+"MaxHealthyPercentage")) {
		policy = nil // The account's is for refreshes without percentages.
	}
	if policy != nil {
		p.min, p.max = policy.min, policy.max
	}
	readHealthyPercentages(r, prefix, &p)
	p.warmup = readDuration(r, prefix+"InstanceWarmup", p.warmup, unbounded)
	p.skipMatching = r.flag(prefix+"SkipMatching", false)
	p.autoRollback = r.flag(prefix+"AutoRollback", false)
	p.bake = readDuration(r, prefix+"BakeTime", 0, maxBakeTime)
	p.protected = r.oneOf(prefix+"ScaleInProtectedInstances", "Wait", "Refresh", "Ignore", "Wait")
	p.standby = r.oneOf(prefix+"StandbyInstances", "Wait", "Terminate", "Ignore", "Wait")
	p.rootVolume = r.text("Strategy") == strategyRootVolume
	p.alarms = r.members(prefix + "AlarmSpecification.Alarms")
	for _, text := range r.members(prefix + "CheckpointPercentages") {
		percentage, _ := strconv.Atoi(text)
		p.checkpoints = append(p.checkpoints, percentage)
	}
	p.delay = readDuration(r, prefix+"CheckpointDelay", defaultCheckpointDelay, maxBakeTime)
	return p
}

// readDuration is a whole number of seconds, or what is used without one.
func readDuration(r *reader, key string, without time.Duration, most int) time.Duration {
	return time.Second * time.Duration(r.number(key, seconds(without), 0, most))
}

func readHealthyPercentages(r *reader, prefix string, p *preferences) {
	lowest, highest := prefix+"MinHealthyPercentage", prefix+"MaxHealthyPercentage"
	if r.has(highest) && !r.has(lowest) {
		r.fail(errorf("ValidationError",
			"You must specify MinHealthyPercentage when you specify MaxHealthyPercentage."))
	}
	p.min = r.number(lowest, p.min, 0, 100)
	p.max = r.number(highest, p.max, 100, 200)
	if p.max-p.min > 100 {
		r.fail(errorf("ValidationError", "The difference between MinHealthyPercentage and MaxHealthyPercentage "+
			"cannot be greater than 100."))
	}
}

func (a refreshAPI) cancelInstanceRefresh(r *reader) (any, error) {
	waits := r.flag("WaitForTransitioningInstances", true)
	return a.changeRefresh(r, func(g *group) (*refresh, error) {
		f, err := a.refreshes.cancelRefresh(g)
		if err == nil && !waits && !f.ended() {
			a.refreshes.endRefresh(f, refreshCancelled)
			a.capacity.reconcile(g)
		}
		return f, err
	})
}

func (a refreshAPI) rollbackInstanceRefresh(r *reader) (any, error) {
	return a.changeRefresh(r, a.refreshes.rollBack)
}

// changeRefresh starts or changes the refresh of the group that the call names, and answers with its id.
func (a refreshAPI) changeRefresh(r *reader, do func(g *group) (*refresh, error)) (any, error) {
	var out refreshIDXML
	return &out, r.changeGroup(a.engine, func(g *group) error {
		f, err := do(g)
		if err == nil {
			out.InstanceRefreshID = f.id
		}
		return err
	})
}

type refreshXML struct {
	InstanceRefreshID    string `xml:"InstanceRefreshId"`
	AutoScalingGroupName string
	Status               string
	StatusReason         string          `xml:",omitempty"`
	StartTime            string          `xml:",omitempty"`
	EndTime              string          `xml:",omitempty"`
	PercentageComplete   *int            `xml:",omitempty"`
	InstancesToUpdate    *int            `xml:",omitempty"`
	Preferences          *preferencesXML `xml:",omitempty"`
	DesiredConfiguration *desiredXML     `xml:",omitempty"`
	RollbackReason       string          `xml:"RollbackDetails>RollbackReason,omitempty"`
}

// preferencesXML has those alone that were sent.
type preferencesXML struct {
	MinHealthyPercentage      *int     `xml:",omitempty"`
	MaxHealthyPercentage      *int     `xml:",omitempty"`
	InstanceWarmup            *int     `xml:",omitempty"`
	SkipMatching              *bool    `xml:",omitempty"`
	AutoRollback              *bool    `xml:",omitempty"`
	CheckpointPercentages     []int    `xml:"CheckpointPercentages>member,omitempty"`
	CheckpointDelay           *int     `xml:",omitempty"`
	BakeTime                  *int     `xml:",omitempty"`
	ScaleInProtectedInstances *string  `xml:",omitempty"`
	StandbyInstances          *string  `xml:",omitempty"`
	Alarms                    []string `xml:"AlarmSpecification>Alarms>member,omitempty"`
}

type desiredXML struct {
	LaunchTemplate       *templateSpecXML `xml:",omitempty"`
	MixedInstancesPolicy *mixedXML        `xml:",omitempty"`
}

// wire returns nil if no preference was sent.
func (p preferences) wire() *preferencesXML {
	if !p.call.any(preferencesPrefix) {
		return nil
	}
	return &preferencesXML{
		MinHealthyPercentage:      sent(p, "MinHealthyPercentage", p.min),
		MaxHealthyPercentage:      sent(p, "MaxHealthyPercentage", p.max),
		InstanceWarmup:            sent(p, "InstanceWarmup", seconds(p.warmup)),
		SkipMatching:              sent(p, "SkipMatching", p.skipMatching),
		AutoRollback:              sent(p, "AutoRollback", p.autoRollback),
		CheckpointPercentages:     p.checkpoints,
		CheckpointDelay:           sent(p, "CheckpointDelay", seconds(p.delay)),
		BakeTime:                  sent(p, "BakeTime", seconds(p.bake)),
		ScaleInProtectedInstances: sent(p, "ScaleInProtectedInstances", p.protected),
		StandbyInstances:          sent(p, "StandbyInstances", p.standby),
		Alarms:                    p.alarms,
	}
}

// sent returns a preference that the call had, and nil for a default.
func sent[T any](p preferences, name string, value T) *T {
	if !p.call.has(preferencesPrefix + name) {
		return nil
	}
	return &value
}

// refreshWire needs mu.
func (a refreshAPI) refreshWire(f *refresh) refreshXML {
	out := refreshXML{
		InstanceRefreshID:    f.id,
		AutoScalingGroupName: f.group.name,
		Status:               f.status,
		StatusReason:         f.reason,
		Preferences:          f.requested.wire(),
	}
	if f.status != refreshPending {
		out.StartTime = stamp(a.server.told(f.startedAt))
		out.PercentageComplete, out.InstancesToUpdate = new(f.percent), new(f.toUpdate)
	}
	if f.ended() {
		out.EndTime = stamp(a.server.told(f.endedAt))
	}
	if f.desired != nil {
		template, mixed := a.catalog.sourceWire(*f.desired)
		out.DesiredConfiguration = &desiredXML{template, mixed}
	}
	if f.rollback != nil {
		out.RollbackReason = f.rollback.reason
	}
	return out
}

// describeInstanceRefreshes shows the newest refreshes of the group first, or the one with an id.
func (a refreshAPI) describeInstanceRefreshes(r *reader) (any, error) {
	ids, most := r.members("InstanceRefreshIds"), r.number("MaxRecords", 50, 1, 100)
	return r.viewGroup(a.engine, func(g *group) (any, error) {
		var out struct {
			InstanceRefreshes []refreshXML `xml:"InstanceRefreshes>member"`
		}
		for _, f := range slices.Backward(g.refreshes) {
			if len(out.InstanceRefreshes) < most && (len(ids) == 0 || contains(ids, f.id)) {
				out.InstanceRefreshes = append(out.InstanceRefreshes, a.refreshWire(f))
			}
		}
		return out, nil
	})
}
