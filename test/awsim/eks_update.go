package awsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// The statuses of an update.
const (
	UpdateInProgress = "InProgress"
	UpdateSuccessful = "Successful"
	UpdateFailed     = "Failed"
	UpdateCancelled  = "Cancelled"
)

// UpdateError is an error of a failed update.
type UpdateError struct {
	Code        string   `json:"errorCode"` // Such as PodEvictionFailure.
	Message     string   `json:"errorMessage"`
	ResourceIDs []string `json:"resourceIds"`
}

// update is one update of the version of a node group.
type update struct {
	updateJSON
	at      time.Time
	token   string
	request updateRequest
	target  updateTarget
	scaling scalingJSON // The sizes of the group before the update.
}

type updateJSON struct {
	ID        string        `json:"id"`
	Status    string        `json:"status"`
	Type      string        `json:"type"`
	Params    []updateParam `json:"params"`
	CreatedAt unix          `json:"createdAt"`
	Errors    []UpdateError `json:"errors"`
}

type updateParam struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// wire shows the update.
func (u *update) wire(a *engine) updateJSON {
	out := u.updateJSON
	out.CreatedAt, out.Errors = unix(a.server.told(u.at)), append([]UpdateError{}, u.Errors...)
	return out
}

// updateTarget is what a node group is updated to. The template is the custom one, with the number of its version.
type updateTarget struct {
	version  string
	release  string
	template templateChoice
}

type updateRequest struct {
	Version            string     `json:"version"`
	ReleaseVersion     string     `json:"releaseVersion"`
	LaunchTemplate     launchJSON `json:"launchTemplate"`
	Force              bool       `json:"force"`
	ClientRequestToken string     `json:"clientRequestToken"`
}

func (a nodegroupAPI) updateNodegroupVersion(r *reader, body []byte) (any, error) {
	request, err := decodeREST[updateRequest](body)
	if err != nil {
		return nil, err
	}
	var out updateJSON
	err = a.managed.change(r.text("clusterName"), r.text("nodegroupName"), func(ng *nodegroup) error {
		u, err := a.startUpdate(ng, request)
		if err == nil {
			out = u.wire(a.engine)
		}
		return err
	})
	return map[string]updateJSON{"update": out}, err
}

// decodeREST reads a body, which may be empty. A member that is not simulated is an error.
func decodeREST[T any](body []byte) (v T, err error) {
	if len(body) == 0 {
		return v, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return v, errorf("SerializationException", "%v", err)
	}
	return v, nil
}

// running returns the update that runs, nil without one.
func (ng *nodegroup) running() *update {
	if n := len(ng.updates); n > 0 && ng.updates[n-1].Status == UpdateInProgress {
		return ng.updates[n-1]
	}
	return nil
}

// startUpdate starts an update, or returns the one of the request's token. The API reference calls the token an
// identifier "to ensure the idempotency of the request". It does not say what another request with the same token
// gets; here InvalidParameterException. It needs mu.
func (a nodegroupAPI) startUpdate(ng *nodegroup, request updateRequest) (*update, error) {
	token := request.ClientRequestToken
	for _, u := range ng.updates {
		switch {
		case token == "" || u.token != token:
		case u.request == request:
			return u, nil
		default:
			return nil, invalidParameter("The client request token %s was used with other parameters.", token)
		}
	}
	if err := ng.checkUpdatable(); err != nil {
		return nil, err
	}
	target, err := a.target(ng, request)
	if err != nil {
		return nil, err
	}
	image, err := a.managed.resolveTarget(ng, &target)
	if err != nil {
		return nil, err
	}
	id := uuid(a.server.opts.source("update", ng.arn, strconv.Itoa(len(ng.updates))))
	u := &update{
		updateJSON: updateJSON{ID: id, Status: UpdateInProgress, Type: "VersionUpdate", Params: target.params(ng)},
		at:         time.Now(), token: token, request: request, target: target,
		scaling: scalingJSON{ng.group.min, ng.group.max, ng.group.desired},
	}
	ng.updates, ng.modifiedAt = append(ng.updates, u), time.Now()
	a.managed.setUp(ng, u, image)
	return u, nil
}

// checkUpdatable refuses an update of a node group that is being updated, or has health issues of which an update
// would not get rid. The texts are EKS's, as users report them; the code for the issues is assumed.
func (ng *nodegroup) checkUpdatable() error {
	if ng.running() != nil {
		return &Error{
			Code: "ResourceInUseException", Status: http.StatusConflict,
			Message: "Nodegroup cannot be updated as it is currently not in Active State",
		}
	}
	allowed := []string{
		"AsgInstanceLaunchFailures", "InstanceLimitExceeded", "InsufficientFreeAddresses", "ClusterUnreachable",
	}
	for _, issue := range ng.issues {
		if !slices.Contains(allowed, issue.Code) {
			return errorf("InvalidRequestException", "Nodegroup health has issues other than [ AsgInstanceLaunchFailures, "+
				"InstanceLimitExceeded, InsufficientFreeAddresses, ClusterUnreachable ]")
		}
	}
	return nil
}

// target returns what a request updates the node group to. The texts about custom AMIs and Kubernetes versions are
// EKS's, as users report them, the others are assumed. It needs mu.
func (a nodegroupAPI) target(ng *nodegroup, request updateRequest) (target updateTarget, err error) {
	target = updateTarget{version: request.Version, release: request.ReleaseVersion}
	if chosen := request.LaunchTemplate; chosen != (launchJSON{}) {
		if target.template, err = a.sameTemplate(ng, chosen); err != nil {
			return target, err
		}
	}
	cluster := a.clusters[ng.spec.Cluster].version
	if ng.spec.AMIType == CustomAMI {
		switch {
		case request.Version != "":
			err = invalidParameter("You cannot specify the field kubernetesVersion when using custom AMIs.")
		case request.ReleaseVersion != "":
			err = invalidParameter("You cannot specify the field releaseVersion when using custom AMIs.")
		case !target.template.isSet():
			err = invalidParameter("Launch template details can't be null for Custom ami type node group")
		}
		target.version = cluster
		return target, err
	}
	switch target.version {
	case "":
		target.version = cluster
	case cluster, ng.version:
	default:
		if isStepBack(ng.version, target.version, cluster) {
			break
		}
		return target, invalidParameter("Nodegroup Kubernetes version should be equal to Cluster kubernetes version %s or "+
			"NodeGroup kubernetes version %s", cluster, ng.version)
	}
	if !target.template.isSet() {
		target.template = ng.custom
	}
	return target, nil
}

// isStepBack reports whether a node group returns by one minor version, and the cluster has at most one more. That is
// how the user guide rolls back a cluster ("Roll back cluster version"); the API reference denies it.
func isStepBack(has, wants, cluster string) bool {
	minor := func(version string) (n int) {
		_, _ = fmt.Sscanf(version, "1.%d", &n)
		return n
	}
	return minor(wants) == minor(has)-1 && minor(cluster)-minor(wants) <= 1
}

// sameTemplate returns the version of the node group's custom launch template that a request names: "you must specify
// the same launch template ID or name that was used to create the node group", which is possible only "if the node
// group was originally deployed with a launch template" (API reference). It needs mu.
func (a nodegroupAPI) sameTemplate(ng *nodegroup, chosen launchJSON) (templateChoice, error) {
	named := templateChoice{id: chosen.ID, name: chosen.Name, version: chosen.Version}
	if chosen.ID != "" && chosen.Name != "" {
		return named, invalidParameter("You must specify either the name or the ID of the launch template, not both.")
	}
	if !ng.custom.isSet() {
		return named, invalidParameter("You cannot specify a launch template: the node group was created without one.")
	}
	t, err := a.catalog.template(named)
	if err != nil {
		return named, invalidParameter("%v", err)
	}
	if own, err := a.catalog.template(ng.custom); err != nil || own != t {
		return named, invalidParameter("You cannot specify another launch template than that of the node group.")
	}
	return named, nil
}

// resolveTarget returns the image of new nodes, and completes the target: the number of the custom launch template's
// version, and the release, which is the ID of the image if that template has one. It needs mu.
func (a eksEngine) resolveTarget(ng *nodegroup, target *updateTarget) (image string, err error) {
	if target.template.isSet() {
		t, err := a.catalog.template(target.template)
		if err != nil {
			return "", invalidParameter("%v", err)
		}
		v, err := t.version(target.template.version)
		if err != nil {
			return "", invalidParameter("%v", err)
		}
		target.template = templateChoice{id: t.id, version: strconv.Itoa(v.number)}
		if v.image != "" {
			target.release = v.image
			return v.image, nil
		}
	}
	found, ok := a.release(target.version, ng.spec.AMIType, target.release)
	if !ok {
		return "", invalidParameter("Requested release version %s is not valid for kubernetes version %s.",
			target.release, target.version)
	}
	target.release = found.Version
	return found.Image, nil
}

// params are what the API shows of the target.
func (t updateTarget) params(ng *nodegroup) []updateParam {
	out := []updateParam{{"Version", t.version}, {"ReleaseVersion", t.release}}
	if t.template != (templateChoice{}) && t.template != ng.custom {
		out = append(out, updateParam{"LaunchTemplateVersion", t.template.version})
	}
	return out
}

// ownTemplate returns the data of a version of EKS's own launch template.
func ownTemplate(ng *nodegroup, image string) *reader {
	return &reader{values: url.Values{
		"LaunchTemplateData.ImageId":      {image},
		"LaunchTemplateData.InstanceType": {ng.spec.InstanceTypes[0]},
	}}
}

// setUp is the first phase of an update: it adds a version to EKS's own launch template and has the group use it. It
// needs mu.
func (a eksEngine) setUp(ng *nodegroup, u *update, image string) {
	v := ng.own.add(ownTemplate(ng, image), templateVersion{})
	ng.targets = append(ng.targets, u.target)
	ng.group.source.template.version = strconv.Itoa(v.number)
	if ng.cluster.kubernetes != nil {
		dice := a.server.opts.source("phases", u.ID)
		a.spawn(func() { updateRun{a, ng, u, dice}.run() })
	}
}

// EndUpdate ends the update of a node group that runs, whatever its nodes are, with a status and errors.
func (s EKS) EndUpdate(cluster, name, status string, errs ...UpdateError) error {
	a := s.asg.managed
	return a.change(cluster, name, func(ng *nodegroup) error {
		u := ng.running()
		if u == nil {
			return fmt.Errorf("awsim: no update of node group %s runs", name)
		}
		a.endUpdate(ng, u, status, errs...)
		return nil
	})
}

// endUpdate records the end of an update. A node group has the version of the target only if all its nodes have it,
// which is assumed. It needs mu.
func (a eksEngine) endUpdate(ng *nodegroup, u *update, status string, errs ...UpdateError) {
	u.Status, u.Errors, ng.modifiedAt = status, errs, time.Now()
	if status == UpdateSuccessful {
		ng.version, ng.release, ng.custom = u.target.version, u.target.release, u.target.template
	}
}

func invalidParameter(format string, args ...any) *Error {
	return errorf("InvalidParameterException", format, args...)
}

func notFound(format string, args ...any) *Error {
	return &Error{
		Code: "ResourceNotFoundException", Message: fmt.Sprintf(format, args...), Status: http.StatusNotFound,
	}
}
