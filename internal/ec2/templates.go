package ec2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// LaunchAPI is what a LaunchReader calls of EC2. It changes nothing.
type LaunchAPI interface {
	sdk.DescribeInstancesAPIClient
	sdk.DescribeLaunchTemplateVersionsAPIClient
}

// LaunchReader reads launch templates, and from what image and when instances were launched.
type LaunchReader struct{ api LaunchAPI }

// NewLaunchReader returns a LaunchReader. The client must retry what AWS throttles.
func NewLaunchReader(api LaunchAPI) *LaunchReader { return &LaunchReader{api: api} }

// callsAtOnce is how many calls of one kind run concurrently.
const callsAtOnce = 8

// aliasPrefix begins an ImageId that is a Systems Manager parameter. Source: "Use a Systems Manager parameter
// instead of an AMI ID" in the EC2 user guide.
const aliasPrefix = "resolve:ssm:"

// Templates reads the launch templates of the groups: one call for each template, and another one for each
// version whose AMI is a Systems Manager parameter. A template that does not exist is no error, but is marked
// Missing; so is one of which a version does not exist, but with its other versions. The version, as in
// refresh.Criteria, is read too.
func (r *LaunchReader) Templates(
	ctx context.Context, groups []refresh.Group, version string,
) (refresh.Templates, error) {
	wanted := needs(groups, version)
	found := make([]refresh.LaunchTemplate, len(wanted))
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for i, n := range wanted {
		calls.Go(func() (err error) {
			found[i], err = r.template(ctx, n)
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return refresh.Templates{}, err
	}
	return refresh.NewTemplates(found...), nil
}

// Complete fills in what only EC2 knows of the groups' instances: when they were launched first, and their AMI.
// refresh.NeedsEC2 reports whether that is needed. What EC2 does not know stays empty.
func (r *LaunchReader) Complete(ctx context.Context, groups []refresh.Group) error {
	instances := map[string][]*refresh.Instance{} // by id
	for _, g := range groups {
		for n := range g.Instances {
			i := &g.Instances[n]
			instances[i.ID] = append(instances[i.ID], i)
		}
	}
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for some := range slices.Chunk(slices.Sorted(maps.Keys(instances)), describeMax) {
		calls.Go(func() error {
			return eachInstance(ctx, r.api, retriedTimeout, "instance-id", some, func(known types.Instance) {
				for _, i := range instances[aws.ToString(known.InstanceId)] {
					i.Launched = firstLaunched(known)
					// The AMI that Auto Scaling describes is newer: it changes with a replaced root volume. Source:
					// Instance.ImageId in the API reference.
					i.ImageID = cmp.Or(i.ImageID, aws.ToString(known.ImageId))
				}
			})
		})
	}
	return calls.Wait()
}

// firstLaunched returns when the instance was launched first: LaunchTime is when it was last launched, also from a warm
// pool, and the attachment time of the primary network interface when it was first. Source: Instance.LaunchTime in the
// API reference.
func firstLaunched(i types.Instance) time.Time {
	for _, n := range i.NetworkInterfaces {
		if n.Attachment != nil && aws.ToInt32(n.Attachment.DeviceIndex) == 0 && n.Attachment.AttachTime != nil {
			return *n.Attachment.AttachTime
		}
	}
	return aws.ToTime(i.LaunchTime)
}

// need is a launch template, and the versions of it that groups launch from.
type need struct {
	template refresh.Template // its version does not count
	versions []string         // as they are written
}

// needs returns the templates and versions that decide what the groups' instances should have been launched
// from, in a fixed order.
func needs(groups []refresh.Group, version string) []need {
	wanted := map[string]*need{}
	for _, g := range groups {
		for i, t := range g.Source.Templates() {
			if i == 0 { // the requested version is not of the overrides' own templates
				t.Version = cmp.Or(version, t.Version)
			}
			key := cmp.Or(t.ID, "name "+t.Name)
			n := cmp.Or(wanted[key], &need{template: t})
			n.versions = unique(append(n.versions, cmp.Or(t.Version, refresh.DefaultVersion)))
			wanted[key] = n
		}
	}
	var list []need
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		list = append(list, *wanted[key])
	}
	return list
}

// template reads one template. If a version is missing, the call fails for all, and each is read by itself.
func (r *LaunchReader) template(ctx context.Context, n need) (refresh.LaunchTemplate, error) {
	out := refresh.LaunchTemplate{
		ID: n.template.ID, Name: n.template.Name, Images: map[int]string{}, Aliases: map[int]bool{},
	}
	all := unique(append([]string{refresh.LatestVersion, refresh.DefaultVersion}, n.versions...))
	err := r.readVersions(ctx, &out, nil, all...)
	if isNoVersion(err) {
		out.Missing = true
		err = r.readEach(ctx, &out, all)
	}
	switch {
	case isNoTemplate(err):
		out.Missing = true
		return out, nil
	case err != nil:
		return refresh.LaunchTemplate{}, err
	}
	return out, r.resolveAliases(ctx, &out, n.versions)
}

// readEach reads the versions that exist, and leaves out the others.
func (r *LaunchReader) readEach(ctx context.Context, out *refresh.LaunchTemplate, versions []string) error {
	for _, version := range versions {
		if err := r.readVersions(ctx, out, nil, version); err != nil && !isNoVersion(err) {
			return err
		}
	}
	return nil
}

// resolveAliases reads the AMIs behind Systems Manager parameters, of the versions that groups launch from:
// reading a parameter needs a permission. A parameter that cannot be read is no error, but Unreadable: it
// concerns only the groups that launch from it. A call resolves one version: users report that EC2 refuses more, which
// the API reference does not say.
func (r *LaunchReader) resolveAliases(ctx context.Context, out *refresh.LaunchTemplate, versions []string) error {
	for _, version := range versions {
		number := out.Number(version)
		if !strings.HasPrefix(out.Images[number], aliasPrefix) || out.Aliases[number] {
			continue
		}
		out.Aliases[number] = true
		err := r.readVersions(ctx, out, aws.Bool(true), strconv.Itoa(number))
		if answer, refused := errors.AsType[smithy.APIError](err); refused && !cloud.IsTransient(err) {
			out.Unreadable = answer.ErrorCode() + ": " + answer.ErrorMessage()
		} else if err != nil {
			return fmt.Errorf("resolve the Systems Manager parameter of an AMI: %w", err)
		}
	}
	return nil
}

// readVersions adds the versions to the template.
func (r *LaunchReader) readVersions(
	ctx context.Context, out *refresh.LaunchTemplate, resolveAlias *bool, versions ...string,
) error {
	in := &sdk.DescribeLaunchTemplateVersionsInput{
		Versions: versions, ResolveAlias: resolveAlias, IncludeManagedResources: includeManaged(),
	}
	if out.ID != "" {
		in.LaunchTemplateId = aws.String(out.ID)
	} else {
		in.LaunchTemplateName = aws.String(out.Name)
	}
	pages := sdk.NewDescribeLaunchTemplateVersionsPaginator(r.api, in)
	doing := "describe versions of launch template " + cmp.Or(out.Name, out.ID)
	return cloud.EachPage(ctx, retriedTimeout, doing, pages, func(page *sdk.DescribeLaunchTemplateVersionsOutput) {
		for _, v := range page.LaunchTemplateVersions {
			addVersion(out, v)
		}
	})
}

// addVersion adds one version to the template. EC2 may list it twice, as $Latest and as $Default. Since
// $Latest is always read, the highest number is the latest.
func addVersion(t *refresh.LaunchTemplate, v types.LaunchTemplateVersion) {
	t.ID = cmp.Or(aws.ToString(v.LaunchTemplateId), t.ID)
	t.Name = cmp.Or(aws.ToString(v.LaunchTemplateName), t.Name)
	number := int(aws.ToInt64(v.VersionNumber))
	if number == 0 {
		return
	}
	t.Latest = max(t.Latest, number)
	if aws.ToBool(v.DefaultVersion) {
		t.Default = number
	}
	t.Images[number] = ""
	if v.LaunchTemplateData != nil {
		t.Images[number] = aws.ToString(v.LaunchTemplateData.ImageId)
	}
}

// isNoTemplate reports whether EC2 knows no such launch template: InvalidLaunchTemplateId.NotFound or
// InvalidLaunchTemplateName.NotFoundException. Source: "Error codes" in the EC2 API reference.
func isNoTemplate(err error) bool {
	code := cloud.ErrorCode(err)
	return strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.Contains(code, ".NotFound")
}

// isNoVersion reports whether the launch template has no such version:
// InvalidLaunchTemplateId.VersionNotFound.
func isNoVersion(err error) bool {
	code := cloud.ErrorCode(err)
	return strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.HasSuffix(code, ".VersionNotFound")
}
