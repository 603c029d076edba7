package ec2

import (
	"context"
	"fmt"
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
	policy := refresh.Group{Source: refresh.Source{
		Mixed: true, Template: &refresh.Template{ID: "lt-1", Version: "7"},
		Overrides: []refresh.Override{{Type: "m5.large"}, {Template: &refresh.Template{ID: "lt-2", Version: "3"}}},
	}}
	byName := refresh.Group{Source: refresh.Source{Template: &refresh.Template{Name: "node"}}}
	for _, tt := range []struct {
		name    string
		groups  []refresh.Group
		version string
		want    string // versions by the template's id or name
	}{
		{"a launch configuration needs none", []refresh.Group{{Source: refresh.Source{Configuration: "lc"}}}, "", "map[]"},
		{"no version is $Default", []refresh.Group{on("lt-1", "$Latest"), on("lt-1", "$Default"), on("lt-1", "")}, "", "map[lt-1:[$Default $Latest]]"},
		{"groups of one template share it", []refresh.Group{on("lt-1", "7"), on("lt-1", "3"), on("lt-1", "7")}, "", "map[lt-1:[3 7]]"},
		{"the requested version replaces the group's", []refresh.Group{on("lt-1", "7")}, "9", "map[lt-1:[9]]"},
		{"an override's template has its own version", []refresh.Group{policy}, "9", "map[lt-1:[9] lt-2:[3]]"},
		{"a template without an id", []refresh.Group{byName}, "", "map[node:[$Default]]"},
	} {
		got := map[string][]string{}
		for _, n := range needs(tt.groups, tt.version) {
			got[n.template.ID+n.template.Name] = n.versions
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestAddVersion: versions are listed in any order, some of them twice, and may lack everything but a number.
func TestAddVersion(t *testing.T) {
	t.Parallel()
	got := refresh.LaunchTemplate{Images: map[int]string{}}
	for number, isDefault := range map[int64]bool{2: false, 9: false, 3: true} {
		for range 2 {
			addVersion(&got, types.LaunchTemplateVersion{
				LaunchTemplateId: aws.String("lt-1"), LaunchTemplateName: aws.String("node"), VersionNumber: aws.Int64(number),
				DefaultVersion:     aws.Bool(isDefault),
				LaunchTemplateData: &types.ResponseLaunchTemplateData{ImageId: aws.String(fmt.Sprint("ami-", number))},
			})
		}
	}
	addVersion(&got, types.LaunchTemplateVersion{VersionNumber: aws.Int64(4)})
	addVersion(&got, types.LaunchTemplateVersion{})
	want := refresh.LaunchTemplate{
		ID: "lt-1", Name: "node", Latest: 9, Default: 3, Images: map[int]string{2: "ami-2", 3: "ami-3", 4: "", 9: "ami-9"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// aliased is an EC2 with a template whose version 2 has its AMI in a Systems Manager parameter.
type aliased struct {
	LaunchAPI
	refusal string     // the code that parameters are refused with
	read    [][]string // the versions of each call
	errs    []string   // the codes that the first calls are refused with
}

func (a *aliased) DescribeLaunchTemplateVersions(
	_ context.Context, in *sdk.DescribeLaunchTemplateVersionsInput, _ ...func(*sdk.Options),
) (*sdk.DescribeLaunchTemplateVersionsOutput, error) {
	a.read = append(a.read, in.Versions)
	if n := len(a.read); n <= len(a.errs) {
		return nil, &smithy.GenericAPIError{Code: a.errs[n-1]}
	}
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
	if fmt.Sprint(api.read) != "[[$Default $Latest 2] [2]]" {
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
	api := &aliased{refusal: "UnauthorizedOperation"}
	known, err = NewLaunchReader(api).Templates(t.Context(), []refresh.Group{other}, "")
	if target := known.Resolve(other, ""); err != nil || len(api.read) != 1 || target.ImageIsParameter {
		t.Errorf("for a group that launches from another version, the calls read %v: %+v, %v", api.read, target, err)
	}
}

// TestTemplatesFails: errors that are transient, and others than a missing version, are returned.
func TestTemplatesFails(t *testing.T) {
	t.Parallel()
	for want, api := range map[string]*aliased{
		"RequestLimitExceeded":  {refusal: "RequestLimitExceeded"},
		"RequestTimeout":        {refusal: "RequestTimeout"},
		"UnauthorizedOperation": {errs: []string{"InvalidLaunchTemplateId.VersionNotFound", "UnauthorizedOperation"}},
	} {
		_, err := NewLaunchReader(api).Templates(t.Context(), []refresh.Group{on("lt-1", "$Latest")}, "")
		if cloud.ErrorCode(err) != want || len(api.read) != 2 {
			t.Errorf("got %v after the calls %v, want %s", err, api.read, want)
		}
	}
}

// createVersions creates a template with the images ami-1, ami-2 and so on.
func createVersions(t *testing.T, s *awsim.Server, client *sdk.Client, name string, images ...string) (id string) {
	t.Helper()
	id, err := s.CreateLaunchTemplate(name, images[0])
	must(t, err)
	for _, image := range images[1:] {
		_, err := client.CreateLaunchTemplateVersion(bounded(t), &sdk.CreateLaunchTemplateVersionInput{
			LaunchTemplateName: aws.String(name), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(image)},
		})
		must(t, err)
	}
	return id
}

func TestHTTPTemplates(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	r := NewLaunchReader(client)
	id := createVersions(t, s, client, "node", "ami-1", "ami-2", "ami-3")
	groups := []refresh.Group{on(id, "$Latest"), on(id, "2"), on(id, "$Latest"), on(id, "")}
	known, err := r.Templates(bounded(t), groups, "")
	must(t, err)
	want := refresh.NewTemplates(refresh.LaunchTemplate{
		ID: id, Name: "node", Latest: 3, Default: 1, Images: map[int]string{1: "ami-1", 2: "ami-2", 3: "ami-3"},
		Aliases: map[int]bool{},
	})
	if !reflect.DeepEqual(known, want) {
		t.Errorf("got %+v, want %+v", known, want)
	}
	if calls := s.Requests()["ec2.DescribeLaunchTemplateVersions"]; calls != 1 {
		t.Errorf("%d calls for one template of %d groups", calls, len(groups))
	}
}

// TestHTTPParameters: two versions of a template whose images are parameters. EC2 resolves those of one version a call.
func TestHTTPParameters(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	s.SetParameter("/one", "ami-1")
	s.SetParameter("/two", "ami-2")
	id := createVersions(t, s, client, "node", "resolve:ssm:/one", "resolve:ssm:/two")
	groups := []refresh.Group{on(id, "1"), on(id, "2"), on(id, "$Latest")}
	known, err := NewLaunchReader(client).Templates(bounded(t), groups, "")
	must(t, err)
	want := refresh.NewTemplates(refresh.LaunchTemplate{
		ID: id, Name: "node", Latest: 2, Default: 1, Images: map[int]string{1: "ami-1", 2: "ami-2"},
		Aliases: map[int]bool{1: true, 2: true},
	})
	if !reflect.DeepEqual(known, want) {
		t.Errorf("got %+v, want %+v", known, want)
	}
	s.SetParameter("/two", "")
	known, err = NewLaunchReader(client).Templates(bounded(t), groups, "")
	must(t, err)
	if one, two := known.Resolve(groups[0], ""), known.Resolve(groups[1], ""); one.Problem != "" || !strings.Contains(two.Problem, "SsmInvalidParameter") {
		t.Errorf("with one unknown parameter of two: %q, %q", one.Problem, two.Problem)
	}
}

// TestHTTPMissingTemplates: a missing template or version does not fail the call for other groups.
func TestHTTPMissingTemplates(t *testing.T) {
	t.Parallel()
	s, client := simulate(t)
	r := NewLaunchReader(client)
	id := createVersions(t, s, client, "node", "ami-1", "ami-2", "ami-3")
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
	for _, code := range []string{"UnauthorizedOperation", "InvalidLaunchTemplateId.Malformed"} {
		remove := s.Inject(awsim.Fault{Action: "DescribeLaunchTemplateVersions", Code: code, Status: 403})
		_, err := r.Templates(bounded(t), []refresh.Group{on("lt-00000000000000000", "")}, "")
		if cloud.ErrorCode(err) != code || !strings.Contains(err.Error(), "launch template lt-00000000000000000") {
			t.Errorf("a call that is refused by %s returns %v", code, err)
		}
		remove()
	}
}
