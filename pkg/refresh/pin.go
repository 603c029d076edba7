package refresh

// Pin is whether a refresh gets its launch template version as a number, in a desired configuration. AWS writes that
// into the group when the refresh succeeds, in the place of $Latest or $Default, and can roll back no refresh without
// it. Source: "Undo changes with a rollback" in the user guide.
type Pin string

// The values of Pin.
const (
	// PinAuto sets the number if the group has one, or the rollout needs it. The group continues to follow $Latest. A
	// group with instance requirements can have no desired configuration.
	PinAuto   Pin = "auto"
	PinAlways Pin = "true"
	PinNever  Pin = "false"
)

// Applies reports whether a refresh of the group to the target gets the number. The rollout needs it for another
// version than the group's, and for a rollback.
func (p Pin) Applies(g Group, t Target, rollback bool) bool {
	if p == PinAuto {
		return rollback || !t.FromGroup || !g.Source.isUnpinned() && !g.Source.byRequirements()
	}
	return p == PinAlways
}
