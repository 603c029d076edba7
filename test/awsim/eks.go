package awsim

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// eksName is EKS as IAM and the other parts of awsim call it.
const eksName = "eks"

// eksService is EKS, which speaks REST with JSON.
func eksService(a *engine) *service {
	api := nodegroupAPI{a}
	return &service{
		name:        eksName,
		contentType: "application/json",
		actions: map[string]actionFunc{
			"DescribeCluster":        eksAction(api.describeCluster),
			"ListNodegroups":         eksAction(api.listNodegroups),
			"DescribeNodegroup":      eksAction(api.describeNodegroup),
			"UpdateNodegroupVersion": eksAction(api.updateNodegroupVersion),
			"ListUpdates":            eksAction(api.listUpdates),
			"DescribeUpdate":         eksAction(api.describeUpdate),
		},
		encode: encodeJSON,
		fail:   failREST,
	}
}

// failREST names the error in a header, as REST with JSON does.
func failREST(h http.Header, _ string, err *Error) []byte {
	h.Set("X-Amzn-Errortype", err.Code)
	members := map[string]string{"message": err.Message}
	maps.Copy(members, err.Members)
	body, _ := json.Marshal(members)
	return body
}

// route is the path of an action. Elements in braces stand for values.
type route struct{ method, path, action string }

// eksRoutes returns the paths of EKS's actions. Source: the model of EKS in the AWS SDK.
func eksRoutes() []route {
	return []route{
		{http.MethodGet, "clusters/{clusterName}", "DescribeCluster"},
		{http.MethodGet, "clusters/{clusterName}/node-groups", "ListNodegroups"},
		{http.MethodGet, "clusters/{clusterName}/node-groups/{nodegroupName}", "DescribeNodegroup"},
		{http.MethodPost, "clusters/{clusterName}/node-groups/{nodegroupName}/update-version", "UpdateNodegroupVersion"},
		{http.MethodGet, "clusters/{clusterName}/updates", "ListUpdates"},
		{http.MethodGet, "clusters/{clusterName}/updates/{updateId}", "DescribeUpdate"},
	}
}

// eksRoute returns the action that a request names by its path, and the values of path and query; ok is false if the
// path is none of EKS. A path of EKS that is not simulated has no action.
func eksRoute(r *http.Request) (action string, values url.Values, ok bool) {
	path := strings.Trim(r.URL.EscapedPath(), "/")
	if path != "clusters" && !strings.HasPrefix(path, "clusters/") {
		return "", nil, false
	}
	values = r.URL.Query()
	for _, one := range eksRoutes() {
		if one.method == r.Method && one.match(path, values) {
			return one.action, values, true
		}
	}
	return "", values, true
}

// match reports whether the path is that of the action, and adds its values then.
func (t route) match(path string, values url.Values) bool {
	want, got := strings.Split(t.path, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	found := map[string]string{}
	for i, part := range want {
		name, isValue := strings.CutPrefix(part, "{")
		value, err := url.PathUnescape(got[i])
		if err != nil || !isValue && value != part {
			return false
		}
		if isValue {
			found[strings.TrimSuffix(name, "}")] = value
		}
	}
	for name, value := range found {
		values.Set(name, value)
	}
	return true
}

// eksAction makes an action of a function that reads the values of path and query, and the body if it is not empty.
// Its errors have the names of cluster and node group that the call has, and EKS's code for invalid values.
func eksAction(do func(r *reader, body []byte) (any, error)) actionFunc {
	return func(_ context.Context, in input) (any, error) {
		out, err := do(&reader{values: in.Values}, in.Body)
		failure, isAPI := errors.AsType[*Error](err)
		if !isAPI {
			return out, err
		}
		told := *failure
		if told.Code == "ValidationError" || told.Code == "MalformedInput" || told.Code == "InvalidNextToken" {
			told.Code = "InvalidParameterException"
		}
		told.Members = map[string]string{}
		for _, name := range []string{"clusterName", "nodegroupName"} {
			if in.Values.Has(name) {
				told.Members[name] = in.Values.Get(name)
			}
		}
		return nil, &told
	}
}
