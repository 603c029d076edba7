package refresh

import (
	"fmt"
	"slices"
	"time"
)

// Criteria say what makes an instance outdated, and which instances are let alone.
type Criteria struct {
	Version string            // Instead of that of the group's launch template: a number, $Latest, $Default.
	MaxAge  time.Duration     // Older ones are outdated, whatever they were launched from; 0 is no limit.
	Only    []string          // These instances alone, and they are outdated whatever they are.
	Exclude map[string]string // Instances to let alone, by id: why. (For nodes with a label, for instance.)
	All     bool              // All instances are outdated.

	IncludeProtected bool // Instances that are protected from scale in are replaced all the same.
	IncludeStandby   bool // The same for those in standby.
}

// Verdict is what becomes of an instance, and why.
type Verdict struct {
	Outdated bool
	Reasons  []Reason // Why it is outdated; of one that is not, at most that it is unhealthy.
	Kept     []Reason // Why it is let alone although it is outdated, or must be waited for.
}

// KeptFor tells whether the code is among the reasons for which the instance is kept.
func (v Verdict) KeptFor(code Code) bool {
	return slices.ContainsFunc(v.Kept, func(r Reason) bool { return r.Code == code })
}

// Reason is one difference, in words, with a code for machines.
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
	CodeType          Code = "type"           // A type that the group's overrides do not have.
	CodeImage         Code = "image"          // Another AMI.
	CodeAge           Code = "age"            // Older than allowed.
	CodeUnhealthy     Code = "unhealthy"      // Auto Scaling replaces it anyway.
	CodeRequested     Code = "chosen"         // Somebody named it, or asked for all.
	CodeUnknown       Code = "unknown-source" // What it was launched from is not known any more.
)

// Reasons for which an outdated instance is kept.
const (
	CodeProtected   Code = "protected" // From scale in.
	CodeStandby     Code = "standby"
	CodeExcluded    Code = "excluded" // By its node's label, or the like.
	CodeTerminating Code = "going"    // It is terminating already.
	CodeRetained    Code = "retained" // It was kept by an abandoned hook.
)

// Outdated judges an instance by the target of its group, which Templates.Resolve gives for Criteria.Version.
// What cannot be told does not make it outdated: a version that could not be resolved, an AMI or a time of
// launch for which EC2 was not asked. An instance of the warm pool is judged like any other: an Instance
// Refresh replaces it too.
func Outdated(i Instance, target Target, t Templates, c Criteria, now time.Time) Verdict {
	if len(c.Only) > 0 && !slices.Contains(c.Only, i.ID) {
		return Verdict{}
	}
	reasons := slices.Concat(c.requestedReasons(), t.sourceReasons(i, target), c.ageReasons(i, now))
	if len(reasons) == 0 {
		return Verdict{Reasons: healthReasons(i)}
	}
	return Verdict{Outdated: true, Reasons: append(reasons, healthReasons(i)...), Kept: c.keptReasons(i)}
}

// NeedsEC2 tells whether only EC2 knows what Outdated needs: when instances were launched, or what AMI they
// have where a template's AMI is a parameter, or where an override has its own and Auto Scaling does not tell
// the instance's.
func NeedsEC2(groups []Group, t Templates, c Criteria) bool {
	return c.MaxAge > 0 || slices.ContainsFunc(groups, func(g Group) bool {
		target := t.Resolve(g, c.Version)
		return target.ImageIsParameter || target.Source.overridesImage() && slices.ContainsFunc(g.Instances, Instance.hasNoImage)
	})
}

// overridesImage tells whether an override has its own AMI.
func (s Source) overridesImage() bool {
	own := func(o Override) bool { return o.ImageID != "" }
	return s.Mixed != nil && slices.ContainsFunc(s.Mixed.Overrides, own)
}

func (i Instance) hasNoImage() bool { return i.ImageID == "" }

// requestedReasons is why an instance is outdated that was asked for, whatever it is.
func (c Criteria) requestedReasons() []Reason {
	switch {
	case len(c.Only) > 0:
		return []Reason{{CodeRequested, "it was asked for"}}
	case c.All:
		return []Reason{{CodeRequested, "all instances were asked for"}}
	default:
		return nil
	}
}

func (c Criteria) ageReasons(i Instance, now time.Time) []Reason {
	age := now.Sub(i.Launched)
	if c.MaxAge <= 0 || i.Launched.IsZero() || age <= c.MaxAge {
		return nil
	}
	return []Reason{{CodeAge, fmt.Sprintf("launched %s ago, at most %s are allowed", days(age), days(c.MaxAge))}}
}

// healthReasons tells of an instance that Auto Scaling takes for unhealthy. It replaces it by itself, so that this
// alone does not make it outdated.
func healthReasons(i Instance) []Reason {
	if i.Healthy || i.Terminating() {
		return nil
	}
	return []Reason{{CodeUnhealthy, "it is unhealthy: Auto Scaling replaces it"}}
}

// keptReasons is why an outdated instance is let alone, or must be waited for.
func (c Criteria) keptReasons(i Instance) []Reason {
	var kept []Reason
	if why, excluded := c.Exclude[i.ID]; excluded {
		kept = append(kept, Reason{CodeExcluded, why})
	}
	if i.Protected && !c.IncludeProtected {
		kept = append(kept, Reason{CodeProtected, "it is protected from scale in"})
	}
	switch {
	case i.Standby() && c.IncludeStandby:
	case i.Standby():
		kept = append(kept, Reason{CodeStandby, "it is in standby"})
	case i.Retained():
		kept = append(kept, Reason{CodeRetained, "its termination was abandoned: it stays until somebody " +
			"terminates it"})
	case i.Terminating():
		kept = append(kept, Reason{CodeTerminating, "it is going already: " + i.State})
	}
	return kept
}
