package awsim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// versioned is a server with a template of six versions, ami-1 to ami-6, of which 3 is the default.
func versioned(t *testing.T) (s *awsim.Server, c *ec2.Client, id string) {
	t.Helper()
	s = start(t, awsim.Options{})
	id, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	for i := 2; i <= 6; i++ {
		_, err := s.AddTemplateVersion("node", fmt.Sprintf("ami-%d", i))
		must(t, err)
	}
	c = machineClient(t, s)
	do(t, c.ModifyLaunchTemplate, &ec2.ModifyLaunchTemplateInput{
		LaunchTemplateId: new(id), DefaultVersion: new("3"),
	})
	return s, c, id
}

func TestTemplateVersions(t *testing.T) {
	s, c, id := versioned(t)
	_, err := s.CreateLaunchTemplate("other", "ami-9")
	must(t, err)
	name := new("node")
	for title, row := range map[string]struct {
		in   ec2.DescribeLaunchTemplateVersionsInput
		want []string // Images, each marked if its version is the default.
		code string
	}{
		"all, the newest first":        {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name}, want: []string{"ami-6", "ami-5", "ami-4", "ami-3!", "ami-2", "ami-1"}},
		"all, page by page":            {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, MaxResults: new(int32(4))}, want: []string{"ami-6", "ami-5", "ami-4", "ami-3!", "ami-2", "ami-1"}},
		"by words and numbers":         {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{"$Default", "$Latest", "1"}}, want: []string{"ami-6", "ami-3!", "ami-1"}},
		"each once":                    {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{"$Latest", "6", "6"}}, want: []string{"ami-6"}},
		"from a number on":             {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, MinVersion: new("5")}, want: []string{"ami-6", "ami-5"}},
		"up to a number":               {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, MaxVersion: new("2")}, want: []string{"ami-2", "ami-1"}},
		"from a number to another":     {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, MinVersion: new("2"), MaxVersion: new("3")}, want: []string{"ami-3!", "ami-2"}},
		"by a filter":                  {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Filters: []types.Filter{{Name: new("is-default-version"), Values: []string{"true"}}}}, want: []string{"ami-3!"}},
		"the defaults of all":          {in: ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Default"}, Filters: []types.Filter{{Name: new("image-id"), Values: []string{"ami-3", "ami-9"}}}}, want: []string{"ami-3!", "ami-9!"}},
		"a number without a template":  {in: ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"1"}}, code: "MissingParameter"},
		"neither template nor version": {code: "MissingParameter"},
		"both an id and a name":        {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, LaunchTemplateName: name}, code: "InvalidParameterCombination"},
		"an unknown id":                {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: new("lt-0")}, code: "InvalidLaunchTemplateId.NotFound"},
		"an unknown name":              {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: new("no")}, code: "InvalidLaunchTemplateName.NotFoundException"},
		"an unknown version":           {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name, Versions: []string{"1", "7"}}, code: "InvalidLaunchTemplateId.VersionNotFound"},
		"a version that is no number":  {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name, Versions: []string{"new"}}, code: "InvalidLaunchTemplateId.VersionNotFound"},
	} {
		t.Run(title, func(t *testing.T) {
			var got []string
			p := ec2.NewDescribeLaunchTemplateVersionsPaginator(c, &row.in)
			for p.HasMorePages() {
				page, err := p.NextPage(t.Context())
				if row.code != "" {
					if code(err) != row.code || status(err) != 400 {
						t.Errorf("got %v", err)
					}
					return
				}
				must(t, err)
				for _, v := range page.LaunchTemplateVersions {
					image := *v.LaunchTemplateData.ImageId
					if *v.DefaultVersion {
						image += "!"
					}
					got = append(got, image)
				}
			}
			if row.in.LaunchTemplateId == nil && row.in.LaunchTemplateName == nil {
				slices.Sort(got) // Templates are in the order of their ids.
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTemplateVersionNotFound(t *testing.T) {
	_, c, id := versioned(t)
	_, err := c.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: new("node"), Versions: []string{"7"},
	})
	if want := "Could not find the specified version 7 for the launch template with ID " + id + "."; said(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestImageThatIsAParameter(t *testing.T) {
	s := start(t, awsim.Options{})
	const alias = "resolve:ssm:/images/node"
	_, err := s.CreateLaunchTemplate("node", alias)
	must(t, err)
	_, err = s.AddTemplateVersion("node", alias+":3")
	must(t, err)
	c := machineClient(t, s)
	image := func(resolve bool, versions ...string) (string, error) {
		out, err := c.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
			LaunchTemplateName: new("node"), Versions: versions, ResolveAlias: new(resolve),
		})
		if err != nil {
			return "", err
		}
		return *out.LaunchTemplateVersions[0].LaunchTemplateData.ImageId, nil
	}
	if _, err := image(true, "1"); code(err) != "SsmInvalidParameter" {
		t.Errorf("an unknown parameter: %v", err)
	}
	s.SetParameter("/images/node", "ami-1")
	s.SetParameter("/images/node:3", "ami-3")
	for name, row := range map[string]struct {
		resolve  bool
		versions []string
		want     string
		code     string
	}{
		"not resolved":                    {versions: []string{"1"}, want: alias},
		"resolved":                        {resolve: true, versions: []string{"$Default"}, want: "ami-1"},
		"a version of the parameter":      {resolve: true, versions: []string{"$Latest"}, want: "ami-3"},
		"only of one version at a time":   {resolve: true, versions: []string{"1", "2"}, code: "InvalidParameterCombination"},
		"not of whatever versions it has": {resolve: true, code: "InvalidParameterCombination"},
	} {
		got, err := image(row.resolve, row.versions...)
		if got != row.want || row.code != "" && code(err) != row.code || row.code == "" && err != nil {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 2, Desired: 1, LaunchTemplate: "node"}))
	settled(t, s)
	s.SetParameter("/images/node", "ami-2")
	must(t, desire(t.Context(), groupClient(t, s), 2))
	if all := settled(t, s); all[0].Image != "ami-1" || all[1].Image != "ami-2" {
		t.Errorf("launched from %+v", all)
	}
}

func TestNoRollbackToImageParameter(t *testing.T) {
	s, c := templated(t, 1, "1")
	s.SetParameter("image", "ami-3")
	_, err := s.AddTemplateVersion("node", "resolve:ssm:image")
	must(t, err)
	do(t, c.UpdateAutoScalingGroup, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: new(groupName), LaunchTemplate: specification("node", "3"),
	})
	must(t, s.PutHook(groupName, awsim.Hook{Name: "ready", Transition: awsim.Launching}))
	_, err = c.StartInstanceRefresh(t.Context(), toVersion2(nil))
	must(t, err)
	_, err = c.RollbackInstanceRefresh(t.Context(),
		&autoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: new(groupName)})
	if code(err) != "IrreversibleInstanceRefresh" {
		t.Errorf("got %v", err)
	}
}
