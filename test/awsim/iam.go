package awsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// IAM is what access keys may do. A key without policies may do everything.
type IAM struct {
	server *Server

	mu        sync.Mutex
	byKey     map[string][]statement
	needed    map[string][]string // By access key: actions of other services that its calls needed.
	withdrawn []*withdrawal
	refused   []string
}

// withdrawal is an action that an access key, or each if that is empty, may not do until a time, or until it is
// restored if that is zero.
type withdrawal struct {
	key, action string
	until       time.Time
}

// Allow has an access key do what the policies allow, and nothing else. A policy that has more than is
// simulated here is an error and not ignored, and so is one that real IAM would take and that would allow
// nothing.
func (s *IAM) Allow(accessKey string, policies ...string) error {
	all := []statement{}
	for _, policy := range policies {
		statements, err := s.readPolicy(policy)
		if err != nil {
			return fmt.Errorf("awsim: the policy of %s: %w", accessKey, err)
		}
		all = append(all, statements...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[string][]statement{}
	}
	s.byKey[accessKey] = all
	return nil
}

// Withdraw refuses one action of IAM, such as sqs:DeleteMessage, to an access key, or to each if that is empty,
// whatever its policies allow. It lasts for a time, or until it is restored if that is zero. It panics if no
// simulated call needs the action, because then the test is wrong.
func (s *IAM) Withdraw(accessKey, action string, lasts time.Duration) (restore func()) {
	if !s.knows(action) {
		panic(fmt.Sprintf("awsim: the action %q is not simulated", action))
	}
	one := &withdrawal{key: accessKey, action: action}
	if lasts > 0 {
		one.until = time.Now().Add(lasts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = append(s.withdrawn, one)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.withdrawn = slices.DeleteFunc(s.withdrawn, func(w *withdrawal) bool { return w == one })
	}
}

func (w *withdrawal) refuses(key, action string, now time.Time) bool {
	return w.action == action && (w.key == "" || w.key == key) && (w.until.IsZero() || now.Before(w.until))
}

// Unauthorized returns each call so far that no policy allowed, as "key action resource".
func (s *IAM) Unauthorized() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// Used lists the actions of IAM that the calls of an access key needed so far.
func (s *IAM) Used(accessKey string) []string {
	var actions []string
	for call := range s.server.RequestsBy(accessKey) {
		service, action, _ := strings.Cut(call, ".")
		actions = append(actions, permission(service, action))
	}
	s.mu.Lock()
	actions = append(actions, s.needed[accessKey]...)
	s.mu.Unlock()
	slices.Sort(actions)
	return slices.Compact(actions)
}

// authorize is an error if the caller's policies do not allow the call on all that it is about.
func (s *IAM) authorize(req request) error {
	for _, on := range s.resources(req) {
		if !s.allows(req.key, permission(req.service.name, req.action), on) {
			return s.accessDenied(req, on)
		}
	}
	for _, also := range s.needs(req) {
		s.mu.Lock()
		if s.needed == nil {
			s.needed = map[string][]string{}
		}
		if !slices.Contains(s.needed[req.key], also.action) {
			s.needed[req.key] = append(s.needed[req.key], also.action)
		}
		s.mu.Unlock()
		if !s.allows(req.key, also.action, also.on) {
			return also.refusal
		}
	}
	return nil
}

// allows reports whether an access key may do the action, and records what its policies do not allow.
func (s *IAM) allows(key, action string, on resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if slices.ContainsFunc(s.withdrawn, func(w *withdrawal) bool { return w.refuses(key, action, now) }) {
		return false
	}
	statements, limited := s.byKey[key]
	if !limited || slices.ContainsFunc(statements, func(st statement) bool { return st.allows(action, on) }) {
		return true
	}
	s.refused = append(s.refused, key+" "+action+" "+on.arn)
	return false
}

// permission is the action in a policy that a call needs. A batch is permitted by the action for one.
func permission(service, action string) string {
	if service == "sqs" {
		action = strings.TrimSuffix(action, "Batch")
	}
	return service + ":" + action
}

// accessDenied is the answer of the service. Auto Scaling and SQS word it alike, SQS with the action in
// lower case.
func (s *IAM) accessDenied(req request, on resource) *Error {
	action := permission(req.service.name, req.action)
	if req.service.name == "sqs" {
		action = strings.ToLower(action)
	}
	text := fmt.Sprintf("User: arn:aws:iam::%s:user/%s is not authorized to perform: %s on resource: %s "+
		"because no identity-based policy allows the %s action",
		s.server.opts.Account, req.key, action, on.arn, action)
	code := "AccessDenied"
	switch req.service.name {
	case "ec2":
		code, text = "UnauthorizedOperation", "You are not authorized to perform this operation. "+text
	case "sqs", eksName, "ssm", eventsName:
		code = "AccessDeniedException"
	}
	return forbidden(code, text)
}

// forbidden returns an error with the status 403.
func forbidden(code, message string) *Error {
	return &Error{Code: code, Message: message, Status: http.StatusForbidden}
}

// resource is what a call is about: * where AWS knows no resource of the action.
type resource struct {
	arn     string
	tags    map[string]string
	tagKeys []string          // Those of the request.
	context map[string]string // Other condition keys.
}

// resources are all that the call must be allowed on.
func (s *IAM) resources(req request) []resource {
	switch {
	case req.service.name == "sts":
		return nil // GetCallerIdentity needs no permission.
	case req.service.name == "sqs":
		return []resource{{arn: s.server.sqs.arn(queueName(req.in))}}
	case req.service.name == eksName:
		return nodegroupResources(s.server.asg, req)
	case req.service.name == "ssm":
		return []resource{{arn: s.server.asg.catalog.parameterARN(parameterName(req.in))}}
	case permission(req.service.name, req.action) == actionRule:
		return []resource{{arn: ruleARN(s.server.opts, ruleName(req.in))}}
	case onGroups(permission(req.service.name, req.action)):
		return groupResources(s.server.asg, &reader{values: req.in.Values})
	case onMachines(permission(req.service.name, req.action)):
		return machineResources(s.server.asg, (&reader{values: req.in.Values}).list("InstanceId"))
	}
	return []resource{{arn: "*"}}
}

// queueName is the last part of the URL of the call's queue. What is no JSON names no queue, and is refused by
// the action.
func queueName(in input) string {
	var named queueRequest
	_ = json.Unmarshal(in.Body, &named)
	return named.QueueURL[strings.LastIndex(named.QueueURL, "/")+1:]
}

// groupResources returns the groups that the call names, directly or by the ids of instances.
func groupResources(a *engine, r *reader) []resource {
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
		on := resource{arn: groupARN(a, name), tags: map[string]string{}, tagKeys: keys, context: updateContext(r)}
		if g := a.groups[name]; g != nil {
			for _, t := range g.tags {
				on.tags[t.Key] = t.Value
			}
		}
		all = append(all, on)
	}
	return all
}

// allows reports whether the statement alone allows the action on the resource.
func (st statement) allows(action string, on resource) bool {
	among := func(all []string) bool {
		return slices.ContainsFunc(all, func(p string) bool { return matches(p, on.arn) })
	}
	named := among(st.Resource) || len(st.NotResource) > 0 && !among(st.NotResource)
	return named && slices.Contains(st.Action, action) && st.holds(on)
}

// holds reports whether all conditions are met.
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
	switch operator {
	case forAllKeys:
		return !slices.ContainsFunc(on.tagKeys, func(k string) bool { return !slices.Contains(wanted, k) })
	case forAllKeysLike:
		return !slices.ContainsFunc(on.tagKeys, func(k string) bool {
			return !slices.ContainsFunc(wanted, func(w string) bool { return matches(w, k) })
		})
	}
	value, known := on.context[key]
	if tag, ofTag := strings.CutPrefix(key, ofResource); ofTag {
		value, known = on.tags[tag]
	}
	if key == ofTagKeys {
		known = len(on.tagKeys) > 0
	}
	switch {
	case operator == ofAbsence:
		return slices.Contains(wanted, strconv.FormatBool(!known))
	case operator == ifKnown && !known:
		return true
	}
	return known && slices.ContainsFunc(wanted, func(w string) bool {
		return w == value || operator == "ArnLike" && matches(w, value) || operator == atMost && isAtMost(value, w)
	})
}

// matches reports whether text fits a pattern of IAM or of a filter of EC2: * is any text, ? is one character, and
// EC2's backslash takes the meaning from what follows it. Case counts.
func matches(pattern, text string) bool {
	if !strings.ContainsAny(pattern, `*?\`) {
		return pattern == text
	}
	wildcards := strings.NewReplacer(`\\\*`, `\*`, `\\\?`, `\?`, `\*`, ".*", `\?`, ".")
	return regexp.MustCompile("(?s)^" + wildcards.Replace(regexp.QuoteMeta(pattern)) + "$").MatchString(text)
}
