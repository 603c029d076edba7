package refresh

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

func TestNeeds(t *testing.T) {
	t.Parallel()
	of := func(s Source) Group { return Group{Source: s} }
	template := func(id, version string) *Template { return &Template{ID: id, Version: version} }
	for _, tt := range []struct {
		name    string
		groups  []Group
		version string
		want    map[string][]string // Versions by the template's id or name.
	}{
		{"a launch configuration needs none", []Group{of(Source{Configuration: "lc"})}, "", map[string][]string{}},
		{"nothing is $Default", []Group{
			of(Source{Template: template("lt-1", "$Latest")}), of(Source{Template: template("lt-1", "$Default")}), of(Source{Template: template("lt-1", "")}),
		}, "", map[string][]string{"lt-1": {"$Default", "$Latest"}}},
		{"groups of one template share it", []Group{
			of(Source{Template: template("lt-1", "7")}), of(Source{Template: template("lt-1", "3")}), of(Source{Template: template("lt-1", "7")}),
		}, "", map[string][]string{"lt-1": {"3", "7"}}},
		{"the version that is asked for stands instead of the group's own", []Group{of(Source{Template: template("lt-1", "7")})}, "9", map[string][]string{"lt-1": {"9"}}},
		{"an override's template has its own version", []Group{of(Source{Mixed: &Mixed{
			Template: *template("lt-1", "7"), Overrides: []Override{{Type: "m5.large"}, {Template: template("lt-2", "3")}},
		}})}, "9", map[string][]string{"lt-1": {"9"}, "lt-2": {"3"}}},
		{"a template that only its name is known of", []Group{of(Source{Template: &Template{Name: "node"}})}, "", map[string][]string{"node": {"$Default"}}},
	} {
		got := map[string][]string{}
		for _, n := range needs(tt.groups, tt.version) {
			got[n.template.ID+strings.TrimPrefix(n.template.Name, " ")] = n.versions
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLaunchTemplateAdd(t *testing.T) {
	t.Parallel()
	version := func(number int64, image string, preferred bool) types.LaunchTemplateVersion {
		return types.LaunchTemplateVersion{
			LaunchTemplateId: aws.String("lt-1"), LaunchTemplateName: aws.String("node"), VersionNumber: aws.Int64(number),
			DefaultVersion: aws.Bool(preferred), LaunchTemplateData: &types.ResponseLaunchTemplateData{ImageId: aws.String(image)},
		}
	}
	for _, tt := range []struct {
		name     string
		versions []types.LaunchTemplateVersion
		want     LaunchTemplate
	}{
		{
			"one version that is both",
			[]types.LaunchTemplateVersion{version(1, "ami-1", true)},
			LaunchTemplate{ID: "lt-1", Name: "node", Latest: 1, Default: 1, Images: map[int]string{1: "ami-1"}},
		},
		{
			"a version that is listed twice",
			[]types.LaunchTemplateVersion{version(1, "ami-1", true), version(1, "ami-1", true)},
			LaunchTemplate{ID: "lt-1", Name: "node", Latest: 1, Default: 1, Images: map[int]string{1: "ami-1"}},
		},
		{
			"in any order",
			[]types.LaunchTemplateVersion{version(2, "ami-2", false), version(9, "ami-9", false), version(3, "ami-3", true)},
			LaunchTemplate{ID: "lt-1", Name: "node", Latest: 9, Default: 3, Images: map[int]string{2: "ami-2", 3: "ami-3", 9: "ami-9"}},
		},
		{
			"a version without data",
			[]types.LaunchTemplateVersion{{VersionNumber: aws.Int64(4)}},
			LaunchTemplate{Latest: 4, Images: map[int]string{4: ""}},
		},
		{"a version of which nothing is said", []types.LaunchTemplateVersion{{}}, LaunchTemplate{Images: map[int]string{}}},
	} {
		got := LaunchTemplate{Images: map[int]string{}}
		for _, v := range tt.versions {
			got.add(v)
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// aliased is an EC2 with a template whose version 2 has its AMI in a Systems Manager parameter.
type aliased struct {
	InstancesAPI
	refuses string // The code that parameters are refused with.
	asked   [][]string
}

func (a *aliased) DescribeLaunchTemplateVersions(
	_ context.Context, in *ec2.DescribeLaunchTemplateVersionsInput, _ ...func(*ec2.Options),
) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	a.asked = append(a.asked, in.Versions)
	images := map[int64]string{1: "ami-1", 2: "resolve:ssm:/node/ami"}
	if aws.ToBool(in.ResolveAlias) {
		if a.refuses != "" {
			return nil, &smithy.GenericAPIError{Code: a.refuses, Message: "no ssm:GetParameters"}
		}
		images = map[int64]string{2: "ami-2"}
	}
	out := &ec2.DescribeLaunchTemplateVersionsOutput{}
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
	groups := []Group{{Source: Source{Template: &Template{ID: "lt-1", Version: "2"}}}}
	api := &aliased{}
	known, err := NewReader(nil, api).Templates(t.Context(), groups, "")
	want := &LaunchTemplate{ID: "lt-1", Latest: 2, Default: 1, Images: map[int]string{1: "ami-1", 2: "ami-2"}, Aliases: map[int]bool{2: true}}
	if got := known.byID["lt-1"]; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(api.asked) != 2 || !slices.Equal(api.asked[0], []string{"$Latest", "$Default", "2"}) || !slices.Equal(api.asked[1], []string{"2"}) {
		t.Errorf("asked for %v", api.asked)
	}
}

// A parameter that cannot be read concerns the groups that are launched from it: the others are told of.
func TestTemplatesUnreadableParameter(t *testing.T) {
	t.Parallel()
	aliasing, other := Group{Source: Source{Template: template("lt-1", "", "$Latest")}}, Group{Source: Source{Template: template("lt-1", "", "1")}}
	known, err := NewReader(nil, &aliased{refuses: "UnauthorizedOperation"}).Templates(t.Context(), []Group{aliasing, other}, "")
	if err != nil {
		t.Fatal(err)
	}
	want := "the Systems Manager parameter that names the AMI of launch template lt-1 version 2 ($Latest) cannot be read (UnauthorizedOperation: no ssm:GetParameters)"
	if target := known.Resolve(aliasing, ""); target.Problem != want {
		t.Errorf("the problem is %q, want %q", target.Problem, want)
	}
	if target := known.Resolve(other, ""); target.Problem != "" {
		t.Errorf("a group that is launched from another version has the problem %q", target.Problem)
	}
	for _, code := range []string{"RequestLimitExceeded", "RequestTimeout"} {
		_, err := NewReader(nil, &aliased{refuses: code}).Templates(t.Context(), []Group{aliasing}, "")
		if codeOf(err) != code {
			t.Errorf("%s, which passes, is told as %v", code, err)
		}
	}
}

// A parameter in a version that nobody is launched from concerns nobody, and may be out of reach.
func TestTemplatesResolveOnlyWhatIsLaunched(t *testing.T) {
	t.Parallel()
	groups := []Group{{Source: Source{Template: &Template{ID: "lt-1", Version: "$Default"}}}}
	api := &aliased{refuses: "UnauthorizedOperation"}
	known, err := NewReader(nil, api).Templates(t.Context(), groups, "")
	if err != nil || len(api.asked) != 1 || len(known.byID["lt-1"].Aliases) > 0 {
		t.Errorf("asked for %v: %+v, %v", api.asked, known.byID["lt-1"], err)
	}
}

func TestCodes(t *testing.T) {
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
		t.Error("an outage is taken for an answer")
	}
}
