// Package autoscaler pauses the Cluster Autoscaler: it scales its Deployment to 0 replicas, and back.
package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// Annotation of the Deployment says that it is paused: a Pause.
const Annotation = "node-drainer.io/paused"

// callTimeout bounds one call to the API server.
const callTimeout = 30 * time.Second

// Pause says who has scaled a Deployment to 0, and from how many replicas. The owner renews it as long as it lives.
type Pause struct {
	Replicas int32
	Owner    string // The host and the process, without spaces.
	Expires  time.Time
}

// String is the Pause as its annotation has it: "REPLICAS OWNER TIME".
func (p Pause) String() string {
	return fmt.Sprintf("%d %s %s", p.Replicas, p.Owner, p.Expires.UTC().Format(time.RFC3339))
}

// clockSkew is by how much the clocks of two hosts may differ.
const clockSkew = 5 * time.Minute

// Expired reports whether the Pause has expired, also by the clock of its owner.
func (p Pause) Expired(now time.Time) bool { return now.After(p.Expires.Add(clockSkew)) }

// pauseOf reads the Pause from the annotation. One that cannot be read is none.
func pauseOf(d *appsv1.Deployment) (Pause, bool) {
	fields := strings.Fields(d.Annotations[Annotation])
	if len(fields) != 3 {
		return Pause{}, false
	}
	replicas, err := strconv.ParseUint(fields[0], 10, 31)
	expires, errTime := time.Parse(time.RFC3339, fields[2])
	if err != nil || errTime != nil {
		return Pause{}, false
	}
	return Pause{Replicas: int32(replicas), Owner: fields[1], Expires: expires}, true
}

// State is what is known of the Deployment.
type State struct {
	Replicas int32  // That it should have.
	Pause    *Pause // nil if it is not paused.
	Manager  string // The tool that may scale it up again: Argo CD or Flux; empty if none is known.
}

func stateOf(d *appsv1.Deployment) State {
	s := State{Replicas: 1, Manager: managerOf(d)}
	if d.Spec.Replicas != nil {
		s.Replicas = *d.Spec.Replicas
	}
	if p, ok := pauseOf(d); ok {
		s.Pause = &p
	}
	return s
}

// managerOf goes by the labels and annotations that the tools put on what they manage. Sources: "Resource Tracking" in
// the documentation of Argo CD; "Kustomization" and "HelmRelease" in that of Flux.
func managerOf(d *appsv1.Deployment) string {
	has := func(all map[string]string, key string) bool { return all[key] != "" }
	switch {
	case has(d.Annotations, "argocd.argoproj.io/tracking-id"), has(d.Labels, "argocd.argoproj.io/instance"):
		return "Argo CD"
	case has(d.Labels, "kustomize.toolkit.fluxcd.io/name"), has(d.Labels, "helm.toolkit.fluxcd.io/name"):
		return "Flux"
	}
	return ""
}

// Reasons for which a Deployment is not paused, or not any more.
var (
	ErrOff  = errors.New("it has no replicas, and nothing says that a rollout has paused it")
	ErrHeld = errors.New("another process has paused it")
	ErrLost = errors.New("somebody else has scaled it up, or has removed the annotation " + Annotation)
)

// Deployment is the Deployment of a Cluster Autoscaler. Its methods need to get and patch it.
type Deployment struct {
	client          kubernetes.Interface
	namespace, name string
}

// New returns the Deployment of the name NAMESPACE/NAME.
func New(client kubernetes.Interface, name string) *Deployment {
	namespace, name, _ := strings.Cut(name, "/")
	return &Deployment{client, namespace, name}
}

// String is NAMESPACE/NAME.
func (d *Deployment) String() string { return d.namespace + "/" + d.name }

// State reads the Deployment.
func (d *Deployment) State(ctx context.Context) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	current, err := d.get(ctx)
	if err != nil {
		return State{}, fmt.Errorf("read the Deployment %s: %w", d, err)
	}
	return stateOf(current), nil
}

// Pause scales the Deployment to 0, and annotates it with the number of replicas, the owner and the expiry, in one
// patch. It replaces a Pause of the same owner, and the one that is given, whose owner is dead. The errors are ErrOff
// and ErrHeld.
func (d *Deployment) Pause(ctx context.Context, owner string, expires time.Time, dead *Pause) error {
	return d.change(ctx, "pause", func(s State) (change, error) { return pausing(s, owner, expires, dead) })
}

// Renew gives the owner's Pause another expiry. The error is ErrLost if it has none any more, or if somebody else has
// scaled the Deployment up: then the annotation is removed, and the replicas stay.
func (d *Deployment) Renew(ctx context.Context, owner string, expires time.Time) error {
	lost := false
	err := d.change(ctx, "keep paused", func(s State) (c change, err error) {
		c, lost = renewing(s, owner, expires)
		return c, nil
	})
	if lost && err == nil {
		return ErrLost
	}
	return err
}

// Resume scales the Deployment back if it has the Pause, and removes the annotation. Replicas that somebody else has
// given it since stay. It reports whether it has changed anything.
func (d *Deployment) Resume(ctx context.Context, p Pause) (resumed bool, err error) {
	err = d.change(ctx, "resume", func(s State) (change, error) {
		c := resuming(s, p)
		resumed = c != nil
		return c, nil
	})
	return resumed && err == nil, err
}

// ResumeExpired resumes the Deployment if its Pause has expired. It returns the Pause, or nil.
func (d *Deployment) ResumeExpired(ctx context.Context) (*Pause, error) {
	s, err := d.State(ctx)
	if err != nil || s.Pause == nil || !s.Pause.Expired(time.Now()) {
		return nil, err
	}
	if resumed, err := d.Resume(ctx, *s.Pause); !resumed || err != nil {
		return nil, err
	}
	return s.Pause, nil
}

// change reads the Deployment and patches it. The patch holds the resourceVersion, so that nothing is lost that others
// change at the same time; then change reads it again.
func (d *Deployment) change(ctx context.Context, doing string, decide func(State) (change, error)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := retry.OnConflict(func() error {
		current, err := d.get(ctx)
		if err != nil {
			return err
		}
		wanted, err := decide(stateOf(current))
		if err != nil || wanted == nil {
			return err
		}
		patch, err := json.Marshal(wanted.patch(current.ResourceVersion))
		if err != nil {
			return err
		}
		_, err = d.client.AppsV1().Deployments(d.namespace).Patch(ctx, d.name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("%s the Deployment %s: %w", doing, d, err)
	}
	return nil
}

func (d *Deployment) get(ctx context.Context) (*appsv1.Deployment, error) {
	return d.client.AppsV1().Deployments(d.namespace).Get(ctx, d.name, metav1.GetOptions{})
}
