package awsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// free is the action that nobody can be denied.
const free = "sts:GetCallerIdentity"

// permissions are what IAM lets access keys do. A key that nothing is said of may do everything.
type permissions struct {
	mu      sync.Mutex
	byKey   map[string][]statement
	refused []string
}

// Allow has an access key do what the policies allow, and nothing else. A policy that has more than is
// simulated here is an error and not ignored, and so is one that real IAM would take and that would allow
// nothing.
func (s *Server) Allow(accessKey string, policies ...string) error {
	all := []statement{}
	for _, policy := range policies {
		statements, err := s.readPolicy(policy)
		if err != nil {
			return fmt.Errorf("awsim: the policy of %s: %w", accessKey, err)
		}
		all = append(all, statements...)
	}
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	if s.iam.byKey == nil {
		s.iam.byKey = map[string][]statement{}
	}
	s.iam.byKey[accessKey] = all
	return nil
}

// Unauthorized tells each call so far that a policy did not allow, by its key, action and resource.
func (s *Server) Unauthorized() []string {
	s.iam.mu.Lock()
	defer s.iam.mu.Unlock()
	return slices.Clone(s.iam.refused)
}

// Used lists the actions of IAM that the calls of an access key needed so far.
func (s *Server) Used(accessKey string) []string {
	var actions []string
	for call := range s.RequestsBy(accessKey) {
		service, action, _ := strings.Cut(call, ".")
		if needed := permission(service, action); needed != free {
			actions = append(actions, needed)
		}
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}

// authorize is an error if the caller's policies do not allow the call on all that it is about.
func (s *Server) authorize(req request) error {
	action := permission(req.service.name, req.action)
	s.iam.mu.Lock()
	statements, limited := s.iam.byKey[req.key]
	s.iam.mu.Unlock()
	if !limited || action == free {
		return nil
	}
	for _, on := range s.resources(req) {
		if slices.ContainsFunc(statements, func(st statement) bool { return st.allows(action, on) }) {
			continue
		}
		s.iam.mu.Lock()
		s.iam.refused = append(s.iam.refused, req.key+" "+action+" "+on.arn)
		s.iam.mu.Unlock()
		return s.accessDenied(req, on)
	}
	return nil
}

// permission is the action in a policy that a call needs. A batch is permitted by the action for one.
func permission(service, action string) string {
	if service == "sqs" {
		action = strings.TrimSuffix(action, "Batch")
	}
	return service + ":" + action
}

// accessDenied is what the service answers. Auto Scaling and SQS say it alike, SQS with the action in small
// letters.
func (s *Server) accessDenied(req request, on resource) *Error {
	action := permission(req.service.name, req.action)
	if req.service.name == "sqs" {
		action = strings.ToLower(action)
	}
	text := fmt.Sprintf("User: arn:aws:iam::%s:user/%s is not authorized to perform: %s on resource: %s "+
		"because no identity-based policy allows the %s action", s.opts.Account, req.key, action, on.arn, action)
	code := "AccessDenied"
	switch req.service.name {
	case "ec2":
		code, text = "UnauthorizedOperation", "You are not authorized to perform this operation. "+text
	case "sqs":
		code = "AccessDeniedException"
	}
	return &Error{code, text, http.StatusForbidden}
}

// resource is what a call is about: * where AWS knows no resource of the action.
type resource struct {
	arn     string
	tags    map[string]string
	tagKeys []string // Those of the request.
}

// resources are all that the call must be allowed on.
func (s *Server) resources(req request) []resource {
	switch {
	case req.service.name == "sqs":
		return []resource{{arn: s.sqs.arn(queueName(req.in))}}
	case onGroups(permission(req.service.name, req.action)):
		return s.asg.resources(&reader{values: req.in.Values})
	}
	return []resource{{arn: "*"}}
}

// queueName is the last part of the URL of the call's queue.
func queueName(in input) string {
	url := in.Values.Get("QueueUrl")
	if in.Values == nil {
		var named struct {
			URL string `json:"QueueUrl"`
		}
		_ = json.Unmarshal(in.Body, &named) // What is no JSON names no queue, and is refused by the action.
		url = named.URL
	}
	return url[strings.LastIndex(url, "/")+1:]
}

// resources are the groups that the call names, be it by the ids of instances.
func (a *autoscaling) resources(r *reader) []resource {
	a.mu.Lock()
	defer a.mu.Unlock()
	names, keys := []string{r.text("AutoScalingGroupName")}, []string(nil)
	if inst := a.instances[r.text("InstanceId")]; names[0] == "" && inst != nil && inst.group != nil {
		names[0] = inst.group.name
	}
	r.each("Tags.member", func(prefix string) {
		names, keys = append(names, r.text(prefix+"ResourceId")), append(keys, r.text(prefix+"Key"))
	})
	if len(keys) > 0 {
		names = names[1:]
	}
	var all []resource
	for _, name := range names {
		on := resource{arn: a.groupARN(name), tags: map[string]string{}, tagKeys: keys}
		if g := a.groups[name]; g != nil {
			for _, t := range g.tags {
				on.tags[t.Key] = t.Value
			}
		}
		all = append(all, on)
	}
	return all
}

// allows tells whether the statement alone allows the action on the resource.
func (st statement) allows(action string, on resource) bool {
	return slices.Contains(st.Action, action) &&
		slices.ContainsFunc(st.Resource, func(p string) bool { return like(p, on.arn) }) && st.holds(on)
}

// holds tells whether all conditions hold.
func (st statement) holds(on resource) bool {
	for operator, keys := range st.Condition {
		for key, wanted := range keys {
			if !on.satisfies(operator, key, wanted) {
				return false
			}
		}
	}
	return true
}

func (on resource) satisfies(operator, key string, wanted []string) bool {
	if operator == forAllKeys {
		return !slices.ContainsFunc(on.tagKeys, func(k string) bool { return !slices.Contains(wanted, k) })
	}
	value, tagged := on.tags[strings.TrimPrefix(key, ofResource)]
	return tagged && slices.ContainsFunc(wanted, func(w string) bool {
		return w == value || operator == "StringLike" && like(w, value)
	})
}

// like tells whether text fits a pattern of IAM: * is any text and ? any character.
func like(pattern, text string) bool {
	quoted := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("(?s)^" + quoted + "$").MatchString(text)
}
