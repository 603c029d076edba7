package awsim

import "time"

// unbounded is for numbers that have no upper bound of the API's own.
const unbounded = 1 << 30

// The actions of the Auto Scaling API that are simulated, by what they are about.
type (
	groupAPI    struct{ *engine }
	processAPI  struct{ *engine }
	tagAPI      struct{ *engine }
	hookAPI     struct{ *engine }
	instanceAPI struct{ *engine }
	refreshAPI  struct{ *engine }
	warmPoolAPI struct{ *engine }
)

func autoscalingActions(a *engine) map[string]actionFunc {
	groups, processes, tags, hooks := groupAPI{a}, processAPI{a}, tagAPI{a}, hookAPI{a}
	instances, refreshes, pools := instanceAPI{a}, refreshAPI{a}, warmPoolAPI{a}
	return map[string]actionFunc{
		"CreateAutoScalingGroup":              query(groups.createAutoScalingGroup),
		"UpdateAutoScalingGroup":              query(groups.updateAutoScalingGroup),
		"DeleteAutoScalingGroup":              query(groups.deleteAutoScalingGroup),
		"DescribeAutoScalingGroups":           query(groups.describeAutoScalingGroups),
		"SetDesiredCapacity":                  query(groups.setDesiredCapacity),
		"SuspendProcesses":                    query(processes.suspendProcesses),
		"ResumeProcesses":                     query(processes.resumeProcesses),
		"DescribeScalingActivities":           query(processes.describeScalingActivities),
		"CreateOrUpdateTags":                  query(tags.createOrUpdateTags),
		"DeleteTags":                          query(tags.deleteTags),
		"DescribeTags":                        query(tags.describeTags),
		"PutLifecycleHook":                    query(hooks.putLifecycleHook),
		"DeleteLifecycleHook":                 query(hooks.deleteLifecycleHook),
		"DescribeLifecycleHooks":              query(hooks.describeLifecycleHooks),
		"DescribeLifecycleHookTypes":          query(hooks.describeLifecycleHookTypes),
		"RecordLifecycleActionHeartbeat":      query(hooks.recordLifecycleActionHeartbeat),
		"CompleteLifecycleAction":             query(hooks.completeLifecycleAction),
		"DescribeAutoScalingInstances":        query(instances.describeAutoScalingInstances),
		"TerminateInstanceInAutoScalingGroup": query(instances.terminateInstance),
		"SetInstanceHealth":                   query(instances.setInstanceHealth),
		"SetInstanceProtection":               query(instances.setInstanceProtection),
		"EnterStandby":                        query(instances.enterStandby),
		"ExitStandby":                         query(instances.exitStandby),
		"AttachInstances":                     query(instances.attachInstances),
		"DetachInstances":                     query(instances.detachInstances),
		"StartInstanceRefresh":                query(refreshes.startInstanceRefresh),
		"DescribeInstanceRefreshes":           query(refreshes.describeInstanceRefreshes),
		"CancelInstanceRefresh":               query(refreshes.cancelInstanceRefresh),
		"RollbackInstanceRefresh":             query(refreshes.rollbackInstanceRefresh),
		"PutWarmPool":                         query(pools.putWarmPool),
		"DescribeWarmPool":                    query(pools.describeWarmPool),
		"DeleteWarmPool":                      query(pools.deleteWarmPool),
	}
}

func (a groupAPI) setDesiredCapacity(r *reader) (any, error) {
	r.must("DesiredCapacity")
	desired := r.number("DesiredCapacity", 0, 0, unbounded)
	return nil, r.changeGroup(a.engine, func(g *group) error {
		return a.capacity.resize(g, desired)
	})
}

func (a processAPI) suspendProcesses(r *reader) (any, error) {
	return nil, a.setProcesses(r, func(g *group, process string) { g.suspended[process] = true })
}

func (a processAPI) resumeProcesses(r *reader) (any, error) {
	return nil, a.setProcesses(r, func(g *group, process string) { delete(g.suspended, process) })
}

// setProcesses does the same to each named process; to all when none is named.
func (a processAPI) setProcesses(r *reader, set func(g *group, process string)) error {
	named := r.members("ScalingProcesses")
	if len(named) == 0 {
		named = processes()
	}
	for _, process := range named {
		if !contains(processes(), process) {
			r.fail(errorf("ValidationError", "%s is not a valid process type", process))
		}
	}
	return r.changeGroup(a.engine, func(g *group) error {
		for _, process := range named {
			set(g, process)
		}
		a.capacity.reconcile(g)
		return nil
	})
}

// activityXML is an entry of a group's history on the wire.
type activityXML struct {
	ActivityID    string `xml:"ActivityId"`
	Group         string `xml:"AutoScalingGroupName"`
	Description   string
	Cause         string
	StartTime     string
	EndTime       string `xml:",omitempty"`
	StatusCode    string
	StatusMessage string `xml:",omitempty"`
	Progress      int
	Details       string
}

func (v *activity) wire() activityXML {
	out := activityXML{
		ActivityID:    v.ID,
		Group:         v.Group,
		Description:   v.Description,
		Cause:         v.Cause,
		StartTime:     stamp(v.StartedAt),
		StatusCode:    v.Code,
		StatusMessage: v.Message,
		Details:       v.Details,
		Progress:      50,
	}
	if v.ended() {
		out.EndTime, out.Progress = stamp(v.EndedAt), 100
	}
	return out
}

type describeActivitiesXML struct {
	Activities []activityXML `xml:"Activities>member"`
	NextToken  string        `xml:",omitempty"`
}

// oneOrAll is the group of this name, or every group when there is no name. It needs mu.
func (a processAPI) oneOrAll(name string) ([]*group, error) {
	if name != "" {
		g, err := a.group(name)
		return []*group{g}, err
	}
	var all []*group
	for _, key := range sortedKeys(a.groups) {
		all = append(all, a.groups[key])
	}
	return all, nil
}

func (a processAPI) describeScalingActivities(r *reader) (any, error) {
	name, ids, filters := r.text("AutoScalingGroupName"), r.members("ActivityIds"), r.filters()
	most := r.number("MaxRecords", 100, 1, 100)
	return view(a.engine, r, func() (any, error) {
		groups, err := a.oneOrAll(name)
		if err != nil {
			return nil, err
		}
		var all []activityXML
		for _, g := range groups {
			for _, v := range g.activities {
				if (len(ids) == 0 || contains(ids, v.ID)) && v.passes(filters) {
					all = append(all, v.wire())
				}
			}
		}
		byNewest(all)
		page, next, err := paginate(all, activityXML.key, r.text("NextToken"), most)
		return describeActivitiesXML{Activities: page, NextToken: next}, err
	})
}

func (v *activity) passes(filters []criterion) bool {
	for _, f := range filters {
		switch f.name {
		case "Status":
			if !f.allows(v.Code) {
				return false
			}
		case "StartTimeLowerBound":
			if at, err := time.Parse(time.RFC3339, f.values[0]); err != nil || v.StartedAt.Before(at) {
				return false
			}
		case "StartTimeUpperBound":
			if at, err := time.Parse(time.RFC3339, f.values[0]); err != nil || v.StartedAt.After(at) {
				return false
			}
		}
	}
	return true
}
