package nodegroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// release is the newest release of a parameter, or why that is not known.
type release struct {
	version string
	err     error
}

// newest reads the newest releases that the node groups need, each once, by the names of the parameters.
func (r *Reader) newest(ctx context.Context, all []described) (map[string]release, error) {
	var parameters []string
	for _, d := range all {
		name := parameterOf(d.amiType, d.group.Wants.Kubernetes)
		if r.request.Release == "" && name != "" && !slices.Contains(parameters, name) {
			parameters = append(parameters, name)
		}
	}
	found := make([]release, len(parameters))
	err := concurrently(ctx, len(parameters), func(ctx context.Context, i int) error {
		version, err := r.releases.Newest(ctx, parameters[i])
		found[i] = release{version, err}
		return ctx.Err()
	})
	byName := map[string]release{}
	for i, name := range parameters {
		byName[name] = found[i]
	}
	return byName, err
}

// resolveTemplate finds the version of the launch template that the nodes are to have. What is not known is a problem
// of that group alone.
func (r *Reader) resolveTemplate(ctx context.Context, d *described) error {
	n := &d.group
	switch {
	case n.Has.Template != nil:
		newest := *n.Has.Template
		newest.Version = cmp.Or(r.request.TemplateVersion, refresh.LatestVersion)
		source := refresh.Group{Source: refresh.Source{Template: &newest}}
		templates, err := r.machines.Templates(ctx, []refresh.Group{source}, "")
		if err != nil {
			return err
		}
		target := templates.Resolve(source, "")
		n.Wants.Template, n.Problem = target.Source.Template, cmp.Or(n.Problem, target.Problem)
	case r.request.TemplateVersion != "":
		n.Problem = cmp.Or(n.Problem, "a launch template version is requested, and the node group "+n.Name+" has no "+
			"launch template of its own: leave it out")
	}
	return nil
}

// resolveRelease finds the release that the nodes are to have. A group whose AMI is the user's own has neither a
// release nor a Kubernetes version: the launch template decides.
func (r *Reader) resolveRelease(d *described, releases map[string]release) {
	n := &d.group
	parameter := parameterOf(d.amiType, n.Wants.Kubernetes)
	switch {
	case n.Custom:
		n.Has.Kubernetes, n.Wants.Kubernetes, n.Has.Release = "", "", ""
		if r.request.Kubernetes != "" || r.request.Release != "" {
			n.Problem = "the node group " + n.Name + " has an AMI of its own: request a launch template version instead " +
				"of a Kubernetes or release version"
		}
	case r.request.Release != "":
		n.Wants.Release = r.request.Release
	case parameter == "":
		n.Problem = "EKS publishes no parameter with the newest release of AMI type " + d.amiType +
			": name one with --release-version"
	default:
		newest := releases[parameter]
		if newest.err != nil {
			n.Problem = fmt.Sprintf("the newest release is not known: %v; allow ssm:GetParameter (docs/iam.md), or name one "+
				"with --release-version", newest.err)
		}
		if n.Wants.Release = newest.version; isOlder(newest.version, n.Has.Release) {
			n.Wants.Release = n.Has.Release // It was updated before the parameter was.
		}
	}
}

// isOlder reports whether both are releases of the same Kubernetes version, and the first is the older one: they end
// with the day. Source: "Amazon Linux AMI versions" in the EKS user guide. Those of Bottlerocket end with a part of a
// commit's hash, and have no order.
func isOlder(release, other string) bool {
	version, day, _ := strings.Cut(release, "-")
	otherVersion, otherDay, _ := strings.Cut(other, "-")
	return minor(version) == minor(otherVersion) && isDay(day) && isDay(otherDay) && day < otherDay
}

func isDay(text string) bool {
	_, err := time.Parse("20060102", text)
	return err == nil
}

// minor is the version without the patch version: 1.34 of 1.34.2.
func minor(version string) string { return version[:max(0, strings.LastIndexByte(version, '.'))] }
