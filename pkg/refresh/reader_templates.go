package refresh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"
)

// aliasPrefix begins an ImageId that is a Systems Manager parameter. Source: "Use a Systems Manager parameter
// instead of an AMI ID" in the EC2 user guide.
const aliasPrefix = "resolve:ssm:"

// Templates asks for the launch templates of the groups: one call for each template, and another one where a
// version's AMI is a Systems Manager parameter. A template that does not exist is no error, but Missing; one
// of which a version does not exist is too, but has the rest of its versions. Version is as in Criteria: it
// is asked for too.
func (r *Reader) Templates(ctx context.Context, groups []Group, version string) (Templates, error) {
	wanted := needs(groups, version)
	found := make([]LaunchTemplate, len(wanted))
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for i, n := range wanted {
		calls.Go(func() (err error) {
			found[i], err = r.template(ctx, n)
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return Templates{}, err
	}
	return NewTemplates(found...), nil
}

// need is a launch template, and the versions of it that somebody is to be launched from.
type need struct {
	template Template // Its version is not heeded.
	versions []string // As they are written.
}

// numbers are the versions that must be asked for besides $Latest and $Default.
func (n need) numbers() []string {
	return slices.DeleteFunc(slices.Clone(n.versions), func(v string) bool {
		return v == latestVersion || v == defaultVersion
	})
}

// needs returns what must be known of templates to say what the groups' instances should have been launched
// from, in a fixed order.
func needs(groups []Group, version string) []need {
	wanted := map[string]map[string]bool{}
	templates := map[string]Template{}
	add := func(t Template, version string) {
		key := cmp.Or(t.ID, "name "+t.Name)
		if wanted[key] == nil {
			wanted[key], templates[key] = map[string]bool{}, t
		}
		wanted[key][cmp.Or(version, defaultVersion)] = true
	}
	for _, g := range groups {
		for i, t := range g.Source.templates() {
			if i == 0 {
				add(t, cmp.Or(version, t.Version))
			} else {
				add(t, t.Version)
			}
		}
	}
	var list []need
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		list = append(list, need{templates[key], slices.Sorted(maps.Keys(wanted[key]))})
	}
	return list
}

// templates are those of the source: the first is the one whose version may be asked for, others are of
// overrides.
func (s Source) templates() []Template {
	switch {
	case s.Template != nil:
		return []Template{*s.Template}
	case s.Mixed != nil:
		all := []Template{s.Mixed.Template}
		for _, o := range s.Mixed.Overrides {
			if o.Template != nil {
				all = append(all, *o.Template)
			}
		}
		return all
	default:
		return nil
	}
}

// template asks for one template. If a version is missing, the call fails for all, and each is asked for
// alone.
func (r *Reader) template(ctx context.Context, n need) (LaunchTemplate, error) {
	out := LaunchTemplate{
		ID: n.template.ID, Name: n.template.Name, Images: map[int]string{}, Aliases: map[int]bool{},
	}
	together := slices.Concat([]string{latestVersion, defaultVersion}, n.numbers())
	err := r.versions(ctx, &out, together, false)
	if isNoVersion(err) {
		out.Missing = true
		err = r.oneByOne(ctx, &out, n.numbers())
	}
	switch {
	case isNoTemplate(err):
		out.Missing = true
		return out, nil
	case err != nil:
		return LaunchTemplate{}, err
	}
	return out, r.resolveAliases(ctx, &out, n.versions)
}

// oneByOne asks for the versions that exist, whatever the others.
func (r *Reader) oneByOne(ctx context.Context, out *LaunchTemplate, numbers []string) error {
	err := r.versions(ctx, out, []string{latestVersion, defaultVersion}, false)
	for _, number := range numbers {
		if err != nil {
			return err
		}
		if err = r.versions(ctx, out, []string{number}, false); isNoVersion(err) {
			err = nil
		}
	}
	return err
}

// resolveAliases asks for the AMIs behind Systems Manager parameters, of the versions that somebody is to be
// launched from: to read a parameter needs a permission. That one cannot be read is no error, but Unreadable:
// it concerns the groups that are launched from it, and no others.
func (r *Reader) resolveAliases(ctx context.Context, out *LaunchTemplate, versions []string) error {
	for _, version := range versions {
		if number := out.number(version); strings.HasPrefix(out.Images[number], aliasPrefix) {
			out.Aliases[number] = true
		}
	}
	if len(out.Aliases) == 0 {
		return nil
	}
	var numbers []string
	for _, number := range slices.Sorted(maps.Keys(out.Aliases)) {
		numbers = append(numbers, strconv.Itoa(number))
	}
	err := r.versions(ctx, out, numbers, true)
	if answer, refused := errors.AsType[smithy.APIError](err); refused && !passes(err) {
		out.Unreadable = answer.ErrorCode() + ": " + answer.ErrorMessage()
		return nil
	}
	if err != nil {
		return fmt.Errorf("resolve the Systems Manager parameter of an AMI: %w", err)
	}
	return nil
}

// passes tells whether the same call may be answered otherwise later.
func passes(err error) bool {
	retryable := retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err)
	return throttled(err) || retryable == aws.TrueTernary
}

// versions adds what EC2 says of versions of the template.
func (r *Reader) versions(ctx context.Context, out *LaunchTemplate, versions []string, resolve bool) error {
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: versions}
	if out.ID != "" {
		in.LaunchTemplateId = aws.String(out.ID)
	} else {
		in.LaunchTemplateName = aws.String(out.Name)
	}
	if resolve {
		in.ResolveAlias = aws.Bool(true)
	}
	pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(r.instances, in)
	for pages.HasMorePages() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		page, err := pages.NextPage(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("describe versions of launch template %s: %w", cmp.Or(out.Name, out.ID), err)
		}
		for _, v := range page.LaunchTemplateVersions {
			out.add(v)
		}
	}
	return nil
}

// add takes over one version. EC2 may list it twice, as $Latest and as $Default. Since $Latest is asked for
// always, the highest number is the latest.
func (t *LaunchTemplate) add(v types.LaunchTemplateVersion) {
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

// isNoTemplate tells whether EC2 knows no such launch template: InvalidLaunchTemplateId.NotFound or
// InvalidLaunchTemplateName.NotFoundException. Source: "Error codes" in the EC2 API reference.
func isNoTemplate(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.Contains(code, ".NotFound")
}

// isNoVersion tells whether the launch template has no such version: InvalidLaunchTemplateId.VersionNotFound.
func isNoVersion(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.HasSuffix(code, ".VersionNotFound")
}

// codeOf is the API's code of an error, or empty.
func codeOf(err error) string {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return answer.ErrorCode()
	}
	return ""
}
