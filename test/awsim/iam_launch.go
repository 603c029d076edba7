package awsim

import (
	"slices"
	"strings"
)

// The actions of other services that the caller of StartInstanceRefresh needs: Auto Scaling makes a dry run of
// RunInstances with the caller's permissions (user guide, "Control Amazon EC2 launch template usage in Auto Scaling
// groups"). ssm:GetParameters is also what DescribeLaunchTemplateVersions needs to resolve an image.
const (
	actionRun        = "ec2:RunInstances"
	actionTag        = "ec2:CreateTags"
	actionPassRole   = "iam:PassRole"
	actionParameters = "ssm:GetParameters"
)

// The condition keys of these actions.
const (
	keyLaunchTemplate = "ec2:LaunchTemplate"
	keyOfTemplate     = "ec2:IsLaunchTemplateResource"
	keyCreateAction   = "ec2:CreateAction"
	keyToService      = "iam:PassedToService"
)

// launchCondition reports whether the operator and the key are simulated for one of these actions.
func launchCondition(operator, key, action string) bool {
	switch action {
	case actionRun:
		return operator == "ArnLike" && key == keyLaunchTemplate || operator == "Bool" && key == keyOfTemplate
	case actionTag:
		return operator == "StringEquals" && key == keyCreateAction
	case actionPassRole:
		return operator == "StringEquals" && key == keyToService
	}
	return false
}

// toLaunch reports whether the action is one of these.
func toLaunch(action string) bool {
	return slices.Contains([]string{actionRun, actionTag, actionPassRole, actionParameters}, action)
}

// need is an action that a call needs besides its own, and the answer if it is not allowed.
type need struct {
	action  string
	on      resource
	refusal *Error
}

// needs are the actions that the call needs besides its own.
func (s *IAM) needs(req request) []need {
	r := &reader{values: req.in.Values}
	s.server.asg.mu.Lock()
	defer s.server.asg.mu.Unlock()
	switch catalog := s.server.asg.catalog; permission(req.service.name, req.action) {
	case "autoscaling:StartInstanceRefresh":
		from := readSource(r, "DesiredConfiguration.", source{})
		if g := s.server.asg.groups[r.text("AutoScalingGroupName")]; g != nil && !from.isSet() {
			from = g.source
		}
		return catalog.needsToLaunch(from)
	case "ec2:DescribeLaunchTemplateVersions":
		return catalog.needsToResolve(r)
	}
	return nil
}

// needsToLaunch are the actions that a launch from any template of the source needs. The subnet is the group's, not the
// template's. EC2 also judges the volumes and more as resources of RunInstances. It needs mu.
func (a templateEngine) needsToLaunch(from source) (all []need) {
	for _, choice := range from.templates() {
		t, err := a.template(choice)
		if err != nil {
			continue // The call itself is refused.
		}
		v, err := t.version(choice.version)
		if err != nil {
			continue
		}
		refusal := forbidden("AccessDenied", "You are not authorized to use launch template: "+t.id)
		context := map[string]string{keyLaunchTemplate: a.arn("ec2", "launch-template/"+t.id), keyOfTemplate: "true"}
		ofGroup := map[string]string{keyLaunchTemplate: context[keyLaunchTemplate], keyOfTemplate: "false"}
		add := func(action, arn string, context map[string]string) {
			all = append(all, need{action, resource{arn: arn, context: context}, refusal})
		}
		add(actionRun, context[keyLaunchTemplate], context)
		add(actionRun, a.arn("ec2", "instance/*"), context)
		add(actionRun, a.imageARN(v.image), context)
		add(actionRun, a.arn("ec2", "subnet/*"), ofGroup)
		if v.tagged {
			add(actionTag, a.arn("ec2", "instance/*"), map[string]string{keyCreateAction: "RunInstances"})
		}
		if v.profile != "" { // The role of a profile has the profile's name here.
			role := "arn:aws:iam::" + a.server.opts.Account + ":role/" + v.profile
			add(actionPassRole, role, map[string]string{keyToService: "ec2.amazonaws.com"})
		}
		if v.isParameter() {
			add(actionParameters, a.parameterARN(v.parameter()), nil)
		}
	}
	return all
}

// needsToResolve are the actions that resolving the images of a template needs. It needs mu.
func (a templateEngine) needsToResolve(r *reader) (all []need) {
	t, err := a.template(readTemplateChoice(r))
	if err != nil || !r.flag("ResolveAlias", false) {
		return nil
	}
	versions, _ := t.pick(r.list("LaunchTemplateVersion"))
	for _, v := range versions {
		if v.isParameter() {
			text := "You are not authorized to perform this operation. " + actionParameters
			refusal := forbidden("UnauthorizedOperation", text)
			all = append(all, need{actionParameters, resource{arn: a.parameterARN(v.parameter())}, refusal})
		}
	}
	return all
}

func (a templateEngine) arn(service, name string) string {
	return strings.Join([]string{"arn:aws", service, a.server.opts.Region, a.server.opts.Account, name}, ":")
}

// imageARN is the ARN of an image, or of the one that a parameter names. It is of no account. It needs mu.
func (a templateEngine) imageARN(name string) string {
	if image, err := a.image(name); err == nil {
		name = image
	}
	return "arn:aws:ec2:" + a.server.opts.Region + "::image/" + name
}

// parameter returns the name of the image's parameter, without a version or a label.
func (v templateVersion) parameter() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(v.image, aliasPrefix), ":")
	return name
}

// parameterARN is the ARN of a parameter. Those that AWS publishes are of no account.
func (a templateEngine) parameterARN(name string) string {
	arn := a.arn("ssm", "parameter/"+strings.TrimPrefix(name, "/"))
	if strings.HasPrefix(name, "/aws/") {
		arn = strings.Replace(arn, ":"+a.server.opts.Account+":", "::", 1)
	}
	return arn
}
