//go:build e2e

package awsim_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestCommandLineClientMachines reads what EC2 says of instances that it may take with a client that nobody
// here wrote.
func TestCommandLineClientMachines(t *testing.T) {
	t.Parallel()
	s := workers(t, awsim.Options{})
	must(t, s.SetMarket(instanceID, awsim.CapacityBlock, reservationID))
	id, err := s.ScheduleChange("instance-reboot", time.Now().Add(time.Hour), instanceID)
	must(t, err)
	must(t, s.CancelChange(id))
	cli := commands{t, s}
	together(func() {
		cli.says(`"InstanceLifecycle":"capacity-block"`, "ec2", "describe-instances", "--filters",
			"Name=capacity-reservation-id,Values=cr-*", "Name=tag-key,Values=team")
	}, func() {
		cli.says(`"CapacityReservationId":"`+reservationID, "ec2", "describe-instances", "--instance-ids", instanceID)
	}, func() {
		cli.says(`"Code":"instance-reboot","Description":"[Canceled]`, "ec2", "describe-instance-status",
			"--instance-ids", instanceID)
	}, func() {
		cli.says(`"InstanceState":{"Code":16,"Name":"running"}`, "ec2", "describe-instance-status",
			"--include-all-instances")
	}, func() {
		cli.refuses("An error occurred (InvalidInstanceID.NotFound) when calling the DescribeInstanceStatus operation: "+
			"The instance IDs 'i-00000001, i-00000002' do not exist", "ec2", "describe-instance-status",
			"--instance-ids", "i-00000002", instanceID, "i-00000001")
	})
}
