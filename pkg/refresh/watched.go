package refresh

// Watched is what trigger watch has found of a group.
type Watched struct {
	Group    string
	Outdated int  // Instances that a rollout would replace.
	Failed   bool // The target has failed, and is not tried again.
	Refused  bool // The preflight refuses the rollout.
}
