package awsim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestLaunchPermissions: who starts a refresh may launch from its template. Tags, an instance profile and an image
// that is a parameter need more. Without any of them, the answer names the template alone.
func TestLaunchPermissions(t *testing.T) {
	t.Parallel()
	const (
		refreshes = `"autoscaling:StartInstanceRefresh"`
		template  = `, "Condition": {"ArnLike": {"ec2:LaunchTemplate": "arn:aws:ec2:*:*:launch-template/lt-*"}}`
		image     = `"arn:aws:ec2:eu-central-1::image/*"`
		ofIt      = `, "Condition": {"Bool": {"ec2:IsLaunchTemplateResource": "true"}}`
		other     = `, "Condition": {"ArnLike": {"ec2:LaunchTemplate": "arn:aws:ec2:*:*:launch-template/lt-other"}}`
		launching = `, "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}}`
		toEC2     = `, "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}`
		toECS     = `, "Condition": {"StringEquals": {"iam:PassedToService": "ecs.amazonaws.com"}}`
		role      = `"arn:aws:iam::123456789012:role/nodes"`
		parameter = `"arn:aws:ssm:eu-central-1:123456789012:parameter/images/*"`
	)
	policies := map[string]string{
		"start": allowing(refreshes, everyGroup, ofProd), "run": allowing(`"ec2:RunInstances"`, `"*"`, template),
		"run any image but this":    strings.Replace(allowing(`"ec2:RunInstances"`, `"arn:aws:ec2:eu-central-1::image/ami-1"`, template), "Resource", "NotResource", 1),
		"run no image":              strings.Replace(allowing(`"ec2:RunInstances"`, image, template), "Resource", "NotResource", 1),
		"run its image":             allowing(`"ec2:RunInstances"`, image, ofIt),
		"run what is its own":       allowing(`"ec2:RunInstances"`, `"*"`, ofIt),
		"run from another template": allowing(`"ec2:RunInstances"`, `"*"`, other),
		"tag":                       allowing(`"ec2:CreateTags"`, `"*"`, launching),
		"pass":                      allowing(`"iam:PassRole"`, role, toEC2), "pass to others": allowing(`"iam:PassRole"`, role, toECS),
		"pass another": allowing(`"iam:PassRole"`, `"arn:aws:iam::123456789012:role/admin"`, toEC2),
		"parameter":    allowing(`"ssm:GetParameters"`, parameter, ""),
		"describe":     allowing(`"ec2:DescribeLaunchTemplateVersions"`, `"*"`, ""),
	}
	for name, tt := range map[string]struct {
		template string
		granted  []string
		lacks    string
	}{
		"nothing":                  {"plain", []string{"start"}, "ec2:RunInstances"},
		"run":                      {"plain", []string{"start", "run"}, ""},
		"all but its image":        {"plain", []string{"start", "run any image but this"}, "ec2:RunInstances"},
		"its image, and the rest":  {"plain", []string{"start", "run no image", "run its image"}, ""},
		"no subnet of the group":   {"plain", []string{"start", "run what is its own"}, "ec2:RunInstances"},
		"run from another":         {"plain", []string{"start", "run from another template"}, "ec2:RunInstances"},
		"no tags":                  {"node", []string{"start", "run", "pass"}, "ec2:CreateTags"},
		"no role":                  {"node", []string{"start", "run", "tag"}, "iam:PassRole"},
		"another role":             {"node", []string{"start", "run", "tag", "pass another"}, "iam:PassRole"},
		"the role, to another":     {"node", []string{"start", "run", "tag", "pass to others"}, "iam:PassRole"},
		"all that a node needs":    {"node", []string{"start", "run", "tag", "pass"}, ""},
		"no parameter":             {"aliased", []string{"start", "run"}, "ssm:GetParameters"},
		"with the parameter":       {"aliased", []string{"start", "run", "parameter"}, ""},
		"all but the start itself": {"node", []string{"run", "tag", "pass"}, "autoscaling:StartInstanceRefresh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, awsim.Options{})
			s.SetParameter("/images/node", "ami-1")
			c := machineClient(t, s)
			for name, data := range map[string]*ec2types.RequestLaunchTemplateData{
				"plain": {ImageId: new("ami-1")}, "aliased": {ImageId: new("resolve:ssm:/images/node:1")},
				"node": {
					ImageId:            new("ami-1"),
					IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: new("nodes")},
					TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{
						ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: new("a"), Value: new("b")}},
					}},
				},
			} {
				do(t, c.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data})
			}
			must(t, s.CreateGroup(awsim.Group{Name: "g", LaunchTemplate: tt.template, Tags: map[string]string{"cluster": "prod"}}))
			var granted []string
			for _, name := range append(tt.granted, "describe") {
				granted = append(granted, policies[name])
			}
			must(t, s.Allow("test", granted...))
			for name, in := range map[string]*autoscaling.StartInstanceRefreshInput{
				"as the group": {AutoScalingGroupName: new("g")}, "to a version": desiring("g", tt.template),
			} {
				_, err := groupClient(t, s).StartInstanceRefresh(t.Context(), in)
				refused := code(err) == "AccessDenied" && status(err) == 403
				if refused != (tt.lacks != "") {
					t.Errorf("%s: %v, want it to lack %q", name, err, tt.lacks)
				}
				if tt.lacks != "" && !slices.Contains(s.Used("test"), tt.lacks) {
					t.Errorf("%s: it used %q", name, s.Used("test"))
				}
			}
			_, err := c.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
				LaunchTemplateName: &tt.template, Versions: []string{"1"}, ResolveAlias: new(true),
			})
			if want := tt.lacks == "ssm:GetParameters"; want != (code(err) == "UnauthorizedOperation") {
				t.Errorf("resolving the image: %v", err)
			}
		})
	}
}

// desiring asks for a refresh to version 1 of the template.
func desiring(group, template string) *autoscaling.StartInstanceRefreshInput {
	in := toVersion2(nil)
	in.AutoScalingGroupName, in.DesiredConfiguration.LaunchTemplate = &group, specification(template, "1")
	return in
}
