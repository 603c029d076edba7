package awsim

import (
	"net/url"
	"strconv"
)

// RefreshSpec is an Instance Refresh to be started. What is empty is left to AWS's defaults.
type RefreshSpec struct {
	// Version of the group's launch template is what to refresh to: the desired configuration. A group with a
	// mixed instances policy takes none here.
	Version    string
	MinHealthy int // Percent.
}

// StartRefresh starts an Instance Refresh as StartInstanceRefresh does, which takes more parameters.
func (s AutoScaling) StartRefresh(groupName string, spec RefreshSpec) (id string, err error) {
	values := url.Values{"AutoScalingGroupName": {groupName}}
	if spec.Version != "" {
		const key = "DesiredConfiguration.LaunchTemplate."
		s.asg.mu.Lock()
		if g := s.asg.groups[groupName]; g != nil && g.source.policy == nil {
			values.Set(key+"LaunchTemplateId", g.source.template.id)
			values.Set(key+"LaunchTemplateName", g.source.template.name)
		}
		s.asg.mu.Unlock()
		values.Set(key+"Version", spec.Version)
	}
	if spec.MinHealthy != 0 {
		values.Set("Preferences.MinHealthyPercentage", strconv.Itoa(spec.MinHealthy))
	}
	out, err := refreshAPI{s.asg}.startInstanceRefresh(&reader{values: values})
	if err != nil {
		return "", err
	}
	return out.(*refreshIDXML).InstanceRefreshID, nil
}

// AddTemplateVersion gives a launch template another version, of this image and as the newest otherwise, and returns
// its number.
func (s EC2) AddTemplateVersion(name, imageID string) (number int, err error) {
	r := &reader{values: url.Values{"LaunchTemplateData.ImageId": {imageID}}}
	err = s.asg.updateErr(func() error {
		t, err := s.asg.catalog.template(templateChoice{name: name})
		if err == nil {
			number = t.add(r, t.versions[len(t.versions)-1]).number
		}
		return err
	})
	return number, err
}
