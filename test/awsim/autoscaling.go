package awsim

import "time"

// unbounded is for numbers that have no upper bound of the API's own.
const unbounded = 1 << 30

// autoscalingActions is the part of the Auto Scaling API that is simulated.
func (s *Server) autoscalingActions() map[string]actionFunc {
	a := s.asg
	return map[string]actionFunc{
		"CreateAutoScalingGroup":              query(a.createAutoScalingGroup),
		"UpdateAutoScalingGroup":              query(a.updateAutoScalingGroup),
		"DeleteAutoScalingGroup":              query(a.deleteAutoScalingGroup),
		"DescribeAutoScalingGroups":           query(a.describeAutoScalingGroups),
		"SetDesiredCapacity":                  query(a.setDesiredCapacity),
		"SuspendProcesses":                    query(a.suspendProcesses),
		"ResumeProcesses":                     query(a.resumeProcesses),
		"DescribeScalingActivities":           query(a.describeScalingActivities),
		"CreateOrUpdateTags":                  query(a.createOrUpdateTags),
		"DeleteTags":                          query(a.deleteTags),
		"DescribeTags":                        query(a.describeTags),
		"PutLifecycleHook":                    query(a.putLifecycleHook),
		"DeleteLifecycleHook":                 query(a.deleteLifecycleHook),
		"DescribeLifecycleHooks":              query(a.describeLifecycleHooks),
		"DescribeLifecycleHookTypes":          query(a.describeLifecycleHookTypes),
		"RecordLifecycleActionHeartbeat":      query(a.recordLifecycleActionHeartbeat),
		"CompleteLifecycleAction":             query(a.completeLifecycleAction),
		"DescribeAutoScalingInstances":        query(a.describeAutoScalingInstances),
		"TerminateInstanceInAutoScalingGroup": query(a.terminateInstance),
		"SetInstanceHealth":                   query(a.setInstanceHealth),
		"SetInstanceProtection":               query(a.setInstanceProtection),
		"EnterStandby":                        query(a.enterStandby),
		"ExitStandby":                         query(a.exitStandby),
		"AttachInstances":                     query(a.attachInstances),
		"DetachInstances":                     query(a.detachInstances),
		"StartInstanceRefresh":                query(a.startInstanceRefresh),
		"DescribeInstanceRefreshes":           query(a.describeInstanceRefreshes),
		"CancelInstanceRefresh":               query(a.cancelInstanceRefresh),
		"RollbackInstanceRefresh":             query(a.rollbackInstanceRefresh),
		"PutWarmPool":                         query(a.putWarmPool),
		"DescribeWarmPool":                    query(a.describeWarmPool),
		"DeleteWarmPool":                      query(a.deleteWarmPool),
	}
}

func (a *autoscaling) setDesiredCapacity(r *reader) (any, error) {
	name := r.must("AutoScalingGroupName")
	r.must("DesiredCapacity")
	desired := r.number("DesiredCapacity", 0, 0, unbounded)
	if r.err != nil {
		return nil, r.err
	}
	return nil, a.updateErr(func() error {
		g, err := a.group(name)
		if err != nil {
			return err
		}
		return a.resize(g, desired)
	})
}

func (a *autoscaling) suspendProcesses(r *reader) (any, error) {
	return nil, a.setProcesses(r, func(g *group, process string) { g.suspended[process] = true })
}

func (a *autoscaling) resumeProcesses(r *reader) (any, error) {
	return nil, a.setProcesses(r, func(g *group, process string) { delete(g.suspended, process) })
}

// setProcesses does the same to each named process; to all when none is named.
func (a *autoscaling) setProcesses(r *reader, set func(g *group, process string)) error {
	name, named := r.must("AutoScalingGroupName"), r.members("ScalingProcesses")
	if r.err != nil {
		return r.err
	}
	if len(named) == 0 {
		named = processes()
	}
	for _, process := range named {
		if !contains(processes(), process) {
			return errorf("ValidationError", "%s is not a valid process type", process)
		}
	}
	return a.updateErr(func() error {
		g, err := a.group(name)
		if err != nil {
			return err
		}
		for _, process := range named {
			set(g, process)
		}
		a.reconcile(g)
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
func (a *autoscaling) oneOrAll(name string) ([]*group, error) {
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

func (a *autoscaling) describeScalingActivities(r *reader) (any, error) {
	name, ids, filters := r.text("AutoScalingGroupName"), r.members("ActivityIds"), r.filters()
	most := r.number("MaxRecords", 100, 1, 100)
	if r.err != nil {
		return nil, r.err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
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
	page, next, ok := paginate(all, activityXML.key, r.text("NextToken"), most)
	if !ok {
		return nil, errToken()
	}
	return describeActivitiesXML{Activities: page, NextToken: next}, nil
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
