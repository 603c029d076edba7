package awsim

// unbounded is for numbers that have no upper bound of the API's own.
const unbounded = 1 << 30

// The actions of the Auto Scaling API that are simulated, by what they are about.
type (
	groupAPI    struct{ *engine }
	tagAPI      struct{ *engine }
	hookAPI     struct{ *engine }
	instanceAPI struct{ *engine }
	refreshAPI  struct{ *engine }
)

func autoscalingActions(a *engine) map[string]actionFunc {
	groups, tags, hooks, instances, refreshes := groupAPI{a}, tagAPI{a}, hookAPI{a}, instanceAPI{a}, refreshAPI{a}
	return map[string]actionFunc{
		"UpdateAutoScalingGroup":              query(groups.updateAutoScalingGroup),
		"DeleteAutoScalingGroup":              query(groups.deleteAutoScalingGroup),
		"DescribeAutoScalingGroups":           query(groups.describeAutoScalingGroups),
		"DescribeAccountSettings":             query(groups.describeAccountSettings),
		"SetDesiredCapacity":                  query(groups.setDesiredCapacity),
		"DescribeScalingActivities":           query(groups.describeScalingActivities),
		"SuspendProcesses":                    query(groups.suspendProcesses),
		"ResumeProcesses":                     query(groups.resumeProcesses),
		"PutWarmPool":                         query(groups.putWarmPool),
		"DescribeWarmPool":                    query(groups.describeWarmPool),
		"CreateOrUpdateTags":                  query(tags.createOrUpdateTags),
		"DeleteTags":                          query(tags.deleteTags),
		"DescribeTags":                        query(tags.describeTags),
		"PutLifecycleHook":                    query(hooks.putLifecycleHook),
		"DeleteLifecycleHook":                 query(hooks.deleteLifecycleHook),
		"DescribeLifecycleHooks":              query(hooks.describeLifecycleHooks),
		"RecordLifecycleActionHeartbeat":      query(hooks.recordLifecycleActionHeartbeat),
		"CompleteLifecycleAction":             query(hooks.completeLifecycleAction),
		"DescribeAutoScalingInstances":        query(instances.describeAutoScalingInstances),
		"TerminateInstanceInAutoScalingGroup": query(instances.terminateInstance),
		"SetInstanceHealth":                   query(instances.setInstanceHealth),
		"SetInstanceProtection":               query(instances.setInstanceProtection),
		"EnterStandby":                        query(instances.enterStandby),
		"ExitStandby":                         query(instances.exitStandby),
		"StartInstanceRefresh":                query(refreshes.startInstanceRefresh),
		"DescribeInstanceRefreshes":           query(refreshes.describeInstanceRefreshes),
		"CancelInstanceRefresh":               query(refreshes.cancelInstanceRefresh),
		"RollbackInstanceRefresh":             query(refreshes.rollbackInstanceRefresh),
	}
}
