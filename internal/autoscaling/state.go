package autoscaling

import (
	"slices"
	"strings"
)

// State is the lifecycle state of an instance, in Auto Scaling's own words: "InService", "Terminating:Wait".
// It is empty for an instance that is in no group.
type State string

// Undescribed is the State of an instance that Auto Scaling did not describe although it may know it.
const Undescribed State = "undescribed"

// Terminating reports whether the instance is leaving its group, is moving from service into the warm pool, or
// is about to boot from another root volume, and a terminating hook may hold it now or soon.
func (s State) Terminating() bool {
	return slices.Contains([]State{
		"Terminating", "Terminating:Wait", "Warmed:Terminating", "Warmed:Terminating:Wait",
		"Warmed:Pending", "Warmed:Pending:Wait", "ReplacingRootVolume", "ReplacingRootVolume:Wait",
	}, s)
}

// Launching reports whether the instance is entering its group or the warm pool, and a launching hook may
// hold it now or soon. One that enters the warm pool may have been in service.
func (s State) Launching() bool {
	return slices.Contains([]State{"Pending", "Pending:Wait", "Warmed:Pending", "Warmed:Pending:Wait"}, s)
}

// Warmed reports whether the instance is in the warm pool, or is entering or leaving it.
func (s State) Warmed() bool { return strings.HasPrefix(string(s), "Warmed:") }

// InPool reports whether the instance has entered the warm pool, and is not about to leave it.
func (s State) InPool() bool {
	return slices.Contains([]State{"Warmed:Stopped", "Warmed:Running", "Warmed:Hibernated"}, s)
}

// Waiting reports whether a lifecycle hook holds the instance now.
func (s State) Waiting() bool { return strings.HasSuffix(string(s), ":Wait") }

// ReplacingRootVolume reports whether the instance is held, or reboots, because its root volume is replaced.
// Launching hooks hold the same instance afterwards. Source: "Replace root volumes during instance refresh" in
// the Amazon EC2 Auto Scaling user guide.
func (s State) ReplacingRootVolume() bool {
	return strings.HasPrefix(string(s), "ReplacingRootVolume") || s == "RootVolumeReplaced"
}

// Gone reports whether the instance is past its terminating hooks: it is being terminated, is in the warm
// pool, or boots from its new root volume.
func (s State) Gone() bool {
	return s.InPool() || slices.Contains([]State{
		"Terminating:Proceed", "Terminated", "Terminating:Retained",
		"Warmed:Terminating:Proceed", "Warmed:Terminated", "Warmed:Terminating:Retained",
		"Warmed:Pending:Proceed", "Warmed:Pending:Retained",
		"ReplacingRootVolume:Proceed", "RootVolumeReplaced",
	}, s)
}

// Unknown reports whether the instance is in no group: it was terminated some time ago, or never was in one.
func (s State) Unknown() bool { return s == "" }
