package autoscaler

import "time"

// change is what a patch does to a Deployment; nil is nothing.
type change map[string]any

// newChange returns the change that sets the annotation, or removes it if the Pause is nil, and the replicas, unless
// these are nil.
func newChange(pause *Pause, replicas *int32) change {
	var annotation any
	if pause != nil {
		annotation = pause.String()
	}
	c := change{"metadata": map[string]any{"annotations": map[string]any{Annotation: annotation}}}
	if replicas != nil {
		c["spec"] = map[string]any{"replicas": *replicas}
	}
	return c
}

// patch returns the change for a Deployment of this version, and no other.
func (c change) patch(resourceVersion string) change {
	c["metadata"].(map[string]any)["resourceVersion"] = resourceVersion
	return c
}

// pausing returns the change that pauses a Deployment, or the error why it must not be.
func pausing(s State, owner string, expires time.Time, dead *Pause) (change, error) {
	switch {
	case s.Pause == nil && s.Replicas == 0:
		return nil, ErrOff
	case s.Pause != nil && s.Pause.Owner != owner && (dead == nil || *s.Pause != *dead):
		return nil, ErrHeld
	}
	p := Pause{Replicas: s.Replicas, Owner: owner, Expires: expires}
	if s.Replicas == 0 {
		p.Replicas = s.Pause.Replicas
	}
	return newChange(&p, new(int32(0))), nil
}

// renewing returns the change that renews the owner's Pause, or reports that it is lost.
func renewing(s State, owner string, expires time.Time) (c change, lost bool) {
	switch {
	case s.Pause == nil || s.Pause.Owner != owner:
		return nil, true
	case s.Replicas > 0:
		return newChange(nil, nil), true
	}
	p := *s.Pause
	p.Expires = expires
	return newChange(&p, nil), false
}

// resuming returns the change that ends the Pause, or nil if the Deployment does not have it.
func resuming(s State, p Pause) change {
	switch {
	case s.Pause == nil || s.Pause.Owner != p.Owner || s.Pause.Expires.After(p.Expires):
		return nil
	case s.Replicas > 0:
		return newChange(nil, nil)
	}
	return newChange(nil, &s.Pause.Replicas)
}
