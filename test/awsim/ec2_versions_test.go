package awsim_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestTemplateVersions reads a template of three versions, ami-1 to ami-3, of which 2 is the default.
func TestTemplateVersions(t *testing.T) {
	s := start(t, awsim.Options{})
	id, err := s.CreateLaunchTemplate("node", "ami-1")
	must(t, err)
	c, name := machineClient(t, s), new("node")
	for _, image := range []string{"ami-2", "ami-3"} {
		_, err := s.AddTemplateVersion(*name, image)
		must(t, err)
	}
	do(t, c.ModifyLaunchTemplate, &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: &id, DefaultVersion: new("2")})
	for title, row := range map[string]struct {
		in   ec2.DescribeLaunchTemplateVersionsInput
		want string // Images, each marked if its version is the default.
		code string
	}{
		"all, the newest first":       {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name}, want: "ami-3 ami-2! ami-1 "},
		"by words and numbers":        {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{"$Default", "$Latest", "1"}}, want: "ami-3 ami-2! ami-1 "},
		"each once":                   {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{"$Latest", "3", "3"}}, want: "ami-3 "},
		"neither an id nor a name":    {code: "MissingParameter"},
		"both an id and a name":       {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, LaunchTemplateName: name}, code: "InvalidParameterCombination"},
		"an unknown id":               {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: new("lt-0")}, code: "InvalidLaunchTemplateId.NotFound"},
		"an unknown name":             {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: new("no")}, code: "InvalidLaunchTemplateName.NotFoundException"},
		"an unknown version":          {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name, Versions: []string{"1", "4"}}, code: "InvalidLaunchTemplateId.VersionNotFound"},
		"a version that is no number": {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name, Versions: []string{"new"}}, code: "InvalidLaunchTemplateId.VersionNotFound"},
	} {
		out, err := c.DescribeLaunchTemplateVersions(t.Context(), &row.in)
		got := ""
		if err == nil {
			for _, v := range out.LaunchTemplateVersions {
				got += *v.LaunchTemplateData.ImageId + map[bool]string{true: "! ", false: " "}[*v.DefaultVersion]
			}
		}
		if got != row.want || code(err) != row.code {
			t.Errorf("%s: got %s, %v", title, got, err)
		}
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
		if got, err := image(row.resolve, row.versions...); got != row.want || code(err) != row.code {
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
