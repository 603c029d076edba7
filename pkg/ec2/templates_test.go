package ec2

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// on is a group that launches from a version of a template.
func on(id, version string) refresh.Group {
	return refresh.Group{Source: refresh.Source{Template: &refresh.Template{ID: id, Version: version}}}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		groups  []refresh.Group
		version string
		want    map[string][]string // versions by the template's id or name
	}{
		{"a launch configuration needs none", []refresh.Group{{Source: refresh.Source{Configuration: "lc"}}}, "", map[string][]string{}},
		{
			"no version is $Default", []refresh.Group{on("lt-1", "$Latest"), on("lt-1", "$Default"), on("lt-1", "")}, "",
			map[string][]string{"lt-1": {"$Default", "$Latest"}},
		},
		{
			"groups of one template share it", []refresh.Group{on("lt-1", "7"), on("lt-1", "3"), on("lt-1", "7")}, "",
			map[string][]string{"lt-1": {"3", "7"}},
		},
		{"the requested version replaces the group's", []refresh.Group{on("lt-1", "7")}, "9", map[string][]string{"lt-1": {"9"}}},
		{
			"an override's template has its own version",
			[]refresh.Group{{Source: refresh.Source{Mixed: &refresh.Mixed{
				Template:  refresh.Template{ID: "lt-1", Version: "7"},
				Overrides: []refresh.Override{{Type: "m5.large"}, {Template: &refresh.Template{ID: "lt-2", Version: "3"}}},
			}}}},
			"9", map[string][]string{"lt-1": {"9"}, "lt-2": {"3"}},
		},
		{
			"a template without an id", []refresh.Group{{Source: refresh.Source{Template: &refresh.Template{Name: "node"}}}}, "",
			map[string][]string{"node": {"$Default"}},
		},
	} {
		got := map[string][]string{}
		for _, n := range needs(tt.groups, tt.version) {
			got[n.template.ID+n.template.Name] = n.versions
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAddVersion(t *testing.T) {
	t.Parallel()
	version := func(number int64, image string, preferred bool) types.LaunchTemplateVersion {
		return types.LaunchTemplateVersion{
			LaunchTemplateId: aws.String("lt-1"), LaunchTemplateName: aws.String("node"), VersionNumber: aws.Int64(number),
			DefaultVersion: aws.Bool(preferred), LaunchTemplateData: &types.ResponseLaunchTemplateData{ImageId: aws.String(image)},
		}
	}
	one := refresh.LaunchTemplate{ID: "lt-1", Name: "node", Latest: 1, Default: 1, Images: map[int]string{1: "ami-1"}}
	for _, tt := range []struct {
		name     string
		versions []types.LaunchTemplateVersion
		want     refresh.LaunchTemplate
	}{
		{"one version that is both", []types.LaunchTemplateVersion{version(1, "ami-1", true)}, one},
		{"a version that is listed twice", []types.LaunchTemplateVersion{version(1, "ami-1", true), version(1, "ami-1", true)}, one},
		{
			"in any order",
			[]types.LaunchTemplateVersion{version(2, "ami-2", false), version(9, "ami-9", false), version(3, "ami-3", true)},
			refresh.LaunchTemplate{ID: "lt-1", Name: "node", Latest: 9, Default: 3, Images: map[int]string{2: "ami-2", 3: "ami-3", 9: "ami-9"}},
		},
		{
			"a version without data", []types.LaunchTemplateVersion{{VersionNumber: aws.Int64(4)}},
			refresh.LaunchTemplate{Latest: 4, Images: map[int]string{4: ""}},
		},
		{"an empty version", []types.LaunchTemplateVersion{{}}, refresh.LaunchTemplate{Images: map[int]string{}}},
	} {
		got := refresh.LaunchTemplate{Images: map[int]string{}}
		for _, v := range tt.versions {
			addVersion(&got, v)
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// aliased is an EC2 with a template whose version 2 has its AMI in a Systems Manager parameter.
type aliased struct {
	LaunchAPI
	refusal string     // the code that parameters are refused with
	read    [][]string // the versions of each call
}

func (a *aliased) DescribeLaunchTemplateVersions(
	_ context.Context, in *sdk.DescribeLaunchTemplateVersionsInput, _ ...func(*sdk.Options),
) (*sdk.DescribeLaunchTemplateVersionsOutput, error) {
	a.read = append(a.read, in.Versions)
	images := map[int64]string{1: "ami-1", 2: "resolve:ssm:/node/ami"}
	if aws.ToBool(in.ResolveAlias) {
		if a.refusal != "" {
			return nil, &smithy.GenericAPIError{Code: a.refusal, Message: "no ssm:GetParameters"}
		}
		images = map[int64]string{2: "ami-2"}
	}
	out := &sdk.DescribeLaunchTemplateVersionsOutput{}
	for number, image := range images {
		out.LaunchTemplateVersions = append(out.LaunchTemplateVersions, types.LaunchTemplateVersion{
			LaunchTemplateId: in.LaunchTemplateId, VersionNumber: aws.Int64(number), DefaultVersion: aws.Bool(number == 1),
			LaunchTemplateData: &types.ResponseLaunchTemplateData{ImageId: aws.String(image)},
		})
	}
	return out, nil
}

func TestTemplatesResolveParameters(t *testing.T) {
	t.Parallel()
	api := &aliased{}
	known, err := NewLaunchReader(api).Templates(t.Context(), []refresh.Group{on("lt-1", "2")}, "")
	want := refresh.NewTemplates(refresh.LaunchTemplate{
		ID: "lt-1", Latest: 2, Default: 1, Images: map[int]string{1: "ami-1", 2: "ami-2"}, Aliases: map[int]bool{2: true},
	})
	if err != nil || !reflect.DeepEqual(known, want) {
		t.Errorf("got %+v, %v", known, err)
	}
	if len(api.read) != 2 || !slices.Equal(api.read[0], []string{"$Latest", "$Default", "2"}) || !slices.Equal(api.read[1], []string{"2"}) {
		t.Errorf("the calls read %v", api.read)
	}
}

// A parameter that cannot be read is a problem of the groups that launch from it, and of no other.
func TestTemplatesUnreadableParameter(t *testing.T) {
	t.Parallel()
	aliasing, other := on("lt-1", "$Latest"), on("lt-1", "1")
	known, err := NewLaunchReader(&aliased{refusal: "UnauthorizedOperation"}).
		Templates(t.Context(), []refresh.Group{aliasing, other}, "")
	must(t, err)
	want := "the Systems Manager parameter that names the AMI of launch template lt-1 version 2 ($Latest) cannot be read (UnauthorizedOperation: no ssm:GetParameters)"
	if target := known.Resolve(aliasing, ""); target.Problem != want {
		t.Errorf("the problem is %q, want %q", target.Problem, want)
	}
	if target := known.Resolve(other, ""); target.Problem != "" {
		t.Errorf("a group that launches from another version has the problem %q", target.Problem)
	}
	for _, code := range []string{"RequestLimitExceeded", "RequestTimeout"} {
		_, err := NewLaunchReader(&aliased{refusal: code}).Templates(t.Context(), []refresh.Group{aliasing}, "")
		if cloud.ErrorCode(err) != code {
			t.Errorf("%s, which is transient, is returned as %v", code, err)
		}
	}
}

// A parameter in a version that no group launches from is not read.
func TestTemplatesResolveOnlyWhatIsLaunched(t *testing.T) {
	t.Parallel()
	api := &aliased{refusal: "UnauthorizedOperation"}
	known, err := NewLaunchReader(api).Templates(t.Context(), []refresh.Group{on("lt-1", "$Default")}, "")
	if target := known.Resolve(on("lt-1", "$Default"), ""); err != nil || len(api.read) != 1 || target.ImageIsParameter {
		t.Errorf("the calls read %v: %+v, %v", api.read, target, err)
	}
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code                  string
		noTemplate, noVersion bool
	}{
		{"InvalidLaunchTemplateId.NotFound", true, false},
		{"InvalidLaunchTemplateName.NotFoundException", true, false},
		{"InvalidLaunchTemplateId.VersionNotFound", false, true},
		{"InvalidLaunchTemplateId.Malformed", false, false},
		{"UnauthorizedOperation", false, false},
	} {
		err := error(&smithy.GenericAPIError{Code: tt.code})
		if isNoTemplate(err) != tt.noTemplate || isNoVersion(err) != tt.noVersion {
			t.Errorf("%s: no template %v, no version %v", tt.code, isNoTemplate(err), isNoVersion(err))
		}
	}
	if err := errors.New("no answer"); isNoTemplate(err) || isNoVersion(err) {
		t.Error("an error without a code has a meaning")
	}
}

// createVersions creates a template with the images ami-1, ami-2 and so on.
func createVersions(t *testing.T, client *sdk.Client, name string, images ...string) (id string) {
	t.Helper()
	out, err := client.CreateLaunchTemplate(bounded(t), &sdk.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(images[0])},
	})
	must(t, err)
	for _, image := range images[1:] {
		_, err := client.CreateLaunchTemplateVersion(bounded(t), &sdk.CreateLaunchTemplateVersionInput{
			LaunchTemplateName: aws.String(name), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(image)},
		})
		must(t, err)
	}
	return aws.ToString(out.LaunchTemplate.LaunchTemplateId)
}

func TestHTTPTemplates(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	r := NewLaunchReader(client)
	id := createVersions(t, client, "node", "ami-1", "ami-2", "ami-3")
	known, err := r.Templates(bounded(t), []refresh.Group{on(id, "$Latest"), on(id, "2")}, "")
	must(t, err)
	want := refresh.NewTemplates(refresh.LaunchTemplate{
		ID: id, Name: "node", Latest: 3, Default: 1, Images: map[int]string{1: "ami-1", 2: "ami-2", 3: "ami-3"},
		Aliases: map[int]bool{},
	})
	if !reflect.DeepEqual(known, want) {
		t.Errorf("got %+v, want %+v", known, want)
	}
	if calls := s.Calls("ec2", "DescribeLaunchTemplateVersions"); len(calls) != 1 {
		t.Errorf("%d calls for one template", len(calls))
	}
}

// TestHTTPMissingTemplates: a missing template or version does not fail the call for other groups.
func TestHTTPMissingTemplates(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	r := NewLaunchReader(client)
	id := createVersions(t, client, "node", "ami-1", "ami-2", "ami-3")
	got, err := r.template(bounded(t), need{refresh.Template{ID: id}, []string{"2", "9"}})
	if err != nil || !got.Missing || got.Latest != 3 || got.Default != 1 ||
		!slices.Equal(slices.Sorted(maps.Keys(got.Images)), []int{1, 2, 3}) {
		t.Errorf("a template without a version is %+v, %v", got, err)
	}
	for _, missing := range []refresh.Template{{ID: "lt-00000000000000000", Name: "gone"}, {Name: "nameless"}} {
		got, err := r.template(bounded(t), need{missing, []string{"$Default"}})
		if err != nil || !got.Missing || got.ID != missing.ID || got.Name != missing.Name {
			t.Errorf("a template that does not exist is %+v, %v", got, err)
		}
	}
	s.Inject(awsim.Fault{Action: "DescribeLaunchTemplateVersions", Code: "UnauthorizedOperation", Status: 403})
	if _, err := r.Templates(bounded(t), []refresh.Group{on("lt-00000000000000000", "")}, ""); err == nil ||
		!strings.Contains(err.Error(), "launch template lt-00000000000000000") {
		t.Errorf("a call that is denied returns %v", err)
	}
}

// TestHTTPTemplatesOfManyGroups: the number of calls grows with the templates, not with the groups.
func TestHTTPTemplatesOfManyGroups(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	const templates = 20
	ids := make([]string, templates)
	for n := range templates {
		ids[n] = createVersions(t, client, "node-"+string(rune('a'+n)), "ami-1")
	}
	var groups []refresh.Group
	for n := range 10 * templates {
		groups = append(groups, on(ids[n%templates], ""))
	}
	_, err := NewLaunchReader(client).Templates(bounded(t), groups, "")
	must(t, err)
	if calls := s.Requests()["ec2.DescribeLaunchTemplateVersions"]; calls != templates {
		t.Errorf("%d calls for %d templates", calls, templates)
	}
}
