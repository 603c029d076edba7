package refresh

import (
	"fmt"
	"slices"
	"time"
)

// Criteria say which instances are outdated, and which of them are kept.
type Criteria struct {
	Version string            // Instead of that of the group's launch template: a number, $Latest, $Default.
	MaxAge  time.Duration     // Older ones are outdated, whatever they were launched from; 0 is no limit.
	Only    []string          // These instances only, and they are outdated whatever they were launched from.
	Exclude map[string]string // Instances to keep, by id, with the reason: the label of the node, for example.
	All     bool              // All instances are outdated.

	IncludeProtected bool // Instances that are protected from scale in are replaced too.
	IncludeStandby   bool // Instances in standby are replaced too.

	Standby StandbyRecord // Those in standby that the trigger has moved there. What it keeps there is replaced.
}

// Verdict is whether an instance is outdated or kept, and why.
type Verdict struct {
	Outdated bool
	Reasons  []Reason // Why it is outdated; of one that is not, at most that it is unhealthy.
	Kept     []Reason // Why it is not replaced although it is outdated.
}

// KeptFor reports whether the code is among the reasons for which the instance is kept.
func (v Verdict) KeptFor(code Code) bool {
	return slices.ContainsFunc(v.Kept, func(r Reason) bool { return r.Code == code })
}

// Reason is one cause, as text and as a code for programs.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Code is the kind of a Reason.
type Code string

// Reasons for which an instance is outdated.
const (
	CodeSource        Code = "source"         // From a launch configuration instead of a template, or the like.
	CodeConfiguration Code = "configuration"  // Another launch configuration.
	CodeTemplate      Code = "template"       // Another launch template.
	CodeVersion       Code = "version"        // Another version of the template.
	CodeType          Code = "type"           // A type that is not among the group's overrides.
	CodeImage         Code = "image"          // Another AMI.
	CodeAge           Code = "age"            // Older than allowed.
	CodeUnhealthy     Code = "unhealthy"      // Auto Scaling replaces it anyway.
	CodeRequested     Code = "requested"      // The user named it, or requested all.
	CodeUnknown       Code = "unknown-source" // What it was launched from is not known.
)

// Reasons for which an outdated instance is kept.
const (
	CodeProtected   Code = "protected" // From scale in.
	CodeStandby     Code = "standby"
	CodeExcluded    Code = "excluded" // By its node's label, or the like.
	CodeTerminating Code = "terminating"
	CodeRetained    Code = "retained" // Its termination was abandoned: see Instance.Retained.
)

// Outdated compares an instance with the target of its group, which is Templates.Resolve of Criteria.Version.
// What is unknown does not make it outdated: a version that could not be resolved, or an AMI or launch time
// that was not read from EC2. An instance of the warm pool is compared like any other, since an instance
// refresh replaces it too.
func Outdated(i Instance, target Target, t Templates, c Criteria, now time.Time) Verdict {
	if len(c.Only) > 0 && !slices.Contains(c.Only, i.ID) {
		return Verdict{}
	}
	if i.Standby() && c.Standby[i.ID] {
		return Verdict{}
	}
	reasons := slices.Concat(c.requestedReasons(), t.sourceReasons(i, target), c.ageReasons(i, now))
	if len(reasons) == 0 {
		return Verdict{Reasons: healthReasons(i)}
	}
	return Verdict{Outdated: true, Reasons: append(reasons, healthReasons(i)...), Kept: c.keptReasons(i)}
}

// NeedsEC2 reports whether Outdated needs what only EC2 knows: when instances were launched; or their AMI, if
// a template's AMI is a parameter, or an override has its own and Auto Scaling does not describe the
// instance's; or a managed node group has nodes of another version of EKS's launch template (see OutdatedNodes).
func NeedsEC2(groups []Group, t Templates, c Criteria) bool {
	own := func(o Override) bool { return o.ImageID != "" }
	unknown := func(i Instance) bool { return i.ImageID == "" }
	return c.MaxAge > 0 || slices.ContainsFunc(groups, func(g Group) bool {
		target := t.Resolve(g, c.Version)
		other := func(i Instance) bool {
			return unknown(i) && i.Template != nil && target.Source.Template != nil &&
				i.Template.Version != target.Source.Template.Version
		}
		return target.ImageIsParameter || g.Nodegroup != nil && slices.ContainsFunc(g.Instances, other) ||
			slices.ContainsFunc(g.Source.Overrides, own) && slices.ContainsFunc(g.Instances, unknown)
	})
}

// requestedReasons is why an instance is outdated that was requested, whatever it was launched from.
func (c Criteria) requestedReasons() []Reason {
	switch {
	case len(c.Only) > 0:
		return []Reason{{CodeRequested, "it was requested"}}
	case c.All:
		return []Reason{{CodeRequested, "all instances were requested"}}
	default:
		return nil
	}
}

func (c Criteria) ageReasons(i Instance, now time.Time) []Reason {
	age := now.Sub(i.Launched)
	if c.MaxAge <= 0 || i.Launched.IsZero() || age <= c.MaxAge {
		return nil
	}
	return []Reason{{CodeAge, fmt.Sprintf("launched %s ago, and at most %s is allowed", days(age), days(c.MaxAge))}}
}

// days is a duration in days and hours, or more exactly if it is less than a day.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d < day {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// healthReasons is that Auto Scaling considers the instance unhealthy. This alone does not make it outdated,
// since Auto Scaling replaces it by itself.
func healthReasons(i Instance) []Reason {
	if i.Healthy || i.Terminating() {
		return nil
	}
	return []Reason{{CodeUnhealthy, "it is unhealthy: Auto Scaling replaces it"}}
}

// keptReasons is why an outdated instance is not replaced.
func (c Criteria) keptReasons(i Instance) []Reason {
	var kept []Reason
	if why, excluded := c.Exclude[i.ID]; excluded {
		kept = append(kept, Reason{CodeExcluded, why})
	}
	if i.Protected && !c.IncludeProtected {
		kept = append(kept, Reason{CodeProtected, "it is protected from scale in"})
	}
	_, moved := c.Standby[i.ID]
	switch {
	case i.Standby() && (c.IncludeStandby || moved):
	case i.Standby():
		kept = append(kept, Reason{CodeStandby, "it is in standby"})
	case i.Retained():
		kept = append(kept, Reason{CodeRetained, "its termination was abandoned: it stays until you terminate it"})
	case i.Terminating():
		kept = append(kept, Reason{CodeTerminating, "it is already terminating: " + i.State})
	}
	return kept
}
