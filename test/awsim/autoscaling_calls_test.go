package awsim

import (
	"slices"
	"strconv"
	"testing"
)

func TestAutoScalingErrors(t *testing.T) {
	const token = "12345678-1234-1234-1234-123456789012"
	many := func(list string) (pairs []string) {
		for n := range 51 {
			pairs = append(pairs, list+".member."+strconv.Itoa(n+1), "x")
		}
		return pairs
	}
	completion := func(result string, pairs ...string) []string {
		return append([]string{"LifecycleHookName", "drain", "LifecycleActionResult", result}, pairs...)
	}
	for name, row := range map[string]struct {
		action string
		pairs  []string
		want   string
	}{
		"a token that is not active": {
			"CompleteLifecycleAction", completion(resume, "LifecycleActionToken", token),
			"ValidationError: No active Lifecycle Action found with token " + token,
		},
		"an instance that does not wait": {
			"CompleteLifecycleAction", completion(resume, "InstanceId", "i-1"),
			"ValidationError: No active Lifecycle Action found with instance ID i-1",
		},
		"neither token nor instance": {
			"CompleteLifecycleAction", completion(resume),
			"ValidationError: You must specify either a LifecycleActionToken or an InstanceId.",
		},
		"a result that is none": {
			"CompleteLifecycleAction", completion("MAYBE", "InstanceId", "i-1"),
			"ValidationError: 1 validation error detected: Value 'MAYBE' at 'lifecycleActionResult' failed to satisfy " +
				"constraint: Member must satisfy enum value set: [CONTINUE, ABANDON]",
		},
		"an unknown hook": {
			"RecordLifecycleActionHeartbeat",
			[]string{"LifecycleHookName", "other", "InstanceId", "i-1"},
			"ValidationError: No Lifecycle Hook found with name: other",
		},
		"an unknown group": {
			"DescribeLifecycleHooks",
			[]string{"AutoScalingGroupName", "nobody"},
			"ValidationError: AutoScalingGroup name not found - AutoScalingGroup 'nobody' not found",
		},
		"an unknown instance": {
			"TerminateInstanceInAutoScalingGroup",
			[]string{"InstanceId", "i-1", "ShouldDecrementDesiredCapacity", "false"},
			"ValidationError: Instance Id not found - No managed instance found for instance ID: i-1",
		},
		"more than the maximum": {
			"SetDesiredCapacity",
			[]string{"DesiredCapacity", "2"},
			"ValidationError: New SetDesiredCapacity value 2 is above max value 1 for the AutoScalingGroup.",
		},
		"a parameter that is missing": {
			"SetDesiredCapacity", nil, "ValidationError: 1 validation error detected: Value null at 'desiredCapacity' " +
				"failed to satisfy constraint: Member must not be null",
		},
		"a page that is not there": {
			"DescribeAutoScalingGroups", []string{"NextToken", "***"}, "InvalidNextToken: The NextToken value is not valid.",
		},
		"fifty-one groups by name": {
			"DescribeAutoScalingGroups", many("AutoScalingGroupNames"),
			"ValidationError: The number of group names that may be passed in is limited to 50",
		},
		"more groups on a page than a hundred": {
			"DescribeAutoScalingGroups",
			[]string{"MaxRecords", "101"},
			"ValidationError: 1 validation error detected: Value '101' at 'maxRecords' failed to satisfy constraint: " +
				"Member must have value less than or equal to 100",
		},
		"fifty-one instances": {
			"DescribeAutoScalingInstances", many("InstanceIds"),
			"ValidationError: The number of instance ids that may be passed in is limited to 50",
		},
		"groups by a filter that is not simulated": {
			"DescribeAutoScalingGroups",
			[]string{"Filters.member.1.Name", "key", "Filters.member.1.Values.member.1", "x"},
			"ValidationError: awsim does not simulate the filter key",
		},
		"an update that is not simulated": {
			"UpdateAutoScalingGroup", []string{"MinSize", "7"}, "ValidationError: awsim does not simulate MinSize",
		},
		"an unknown process": {
			"SuspendProcesses", []string{"ScalingProcesses.member.1", "Sleep"}, "ValidationError: Sleep is not a valid process type",
		},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Max: 1}, drainHook)
			if _, err := f.try(row.action, row.pairs...); err == nil || err.Error() != row.want {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
		})
	}
}

// TestPages: a page begins after the last item of the one before, whatever was added or removed since.
func TestPages(t *testing.T) {
	all := []string{"a", "b", "c"}
	key := func(s string) string { return s }
	page, token, err := paginate(all, key, "", 2)
	if err != nil || !slices.Equal(page, []string{"a", "b"}) {
		t.Errorf("the first page is %v, %v", page, err)
	}
	page, token, err = paginate(append([]string{"aa"}, all...), key, token, 2)
	if err != nil || token != "" || !slices.Equal(page, []string{"c"}) {
		t.Errorf("the last page is %v, %v", page, err)
	}
}
