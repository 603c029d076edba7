//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// audit is what judgeAccess needs to know beside the log of the shared control plane.
var audit struct {
	sync.Mutex
	requests []cluster.Request // to control planes that one test had to itself
	provoked []string          // requests that a test expects to be refused, as judge names them
}

// ownCluster starts a control plane for one test alone, whose requests are judged with those of the others.
func ownCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		requests, err := c.Requests(context.WithoutCancel(t.Context()), "")
		if err := errors.Join(err, c.Close()); err != nil {
			t.Error(err)
		}
		audit.Lock()
		defer audit.Unlock()
		audit.requests = append(audit.requests, requests...)
	})
	return c
}

// provoke announces that an account will send a request that RBAC refuses.
func provoke(account, what string) {
	audit.Lock()
	defer audit.Unlock()
	audit.provoked = append(audit.provoked, account+": "+what)
}

// right is one thing that an account may do.
type right struct {
	verb, group, resource string
	name                  string // of the only object; all if empty
	own                   bool   // only in the account's own namespace
}

func (r right) String() string {
	text := r.verb + " " + inGroup(r.resource, r.group)
	if r.name != "" {
		text += " " + r.name
	}
	if r.own {
		text += " in its own namespace"
	}
	return text
}

// inGroup is the resource as kubectl writes it: daemonsets.apps.
func inGroup(resource, group string) string {
	name, sub, _ := strings.Cut(resource, "/")
	if group != "" {
		name += "." + group
	}
	return strings.TrimSuffix(name+"/"+sub, "/")
}

// covers reports whether the right allows the request.
func (r right) covers(q cluster.Request) bool {
	home := homeOf(q.User)
	return r.verb == q.Verb && r.group == q.Group && r.resource == q.FullResource() &&
		(r.name == "" || strings.ReplaceAll(r.name, anyNamespace, home) == q.Name) &&
		(!r.own || q.Namespace == home)
}

// homeOf is the namespace of a ServiceAccount, by its user name.
func homeOf(user string) string {
	home, _, _ := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":")
	return home
}

// rightsOf are the rights that the objects grant a user, one by one.
func rightsOf(user string, objects []unstructured.Unstructured) (rights []right, err error) {
	grants, err := cluster.Grants(objects)
	for _, g := range grants {
		if g.User != user {
			continue
		}
		for _, rule := range g.Rules {
			if len(rule.NonResourceURLs) > 0 {
				err = fmt.Errorf("the chart grants %s %v, which this test does not know", user, rule)
			}
			names := append(rule.ResourceNames, "")[:max(1, len(rule.ResourceNames))]
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							rights = append(rights, right{verb, group, resource, name, g.Namespace != ""})
						}
					}
				}
			}
		}
	}
	return rights, err
}

// judgeAccess expects that the programs, in all tests together, sent no request that the chart does not allow them, and,
// if all tests have run, that they used each right that it grants.
func judgeAccess(shared *cluster.Cluster) error {
	var errs []error
	for account, render := range map[string]func() ([]unstructured.Unstructured, error){
		agentAccount: renderAccess, triggerAccount: renderAccess,
		taintingAccount: renderTainting, lookingAccount: renderLooking, watchingAccount: renderWatching,
		handoverAccount: renderHandover,
	} {
		// A trigger asks for the agents of the cluster if it finds none in its own namespace, also in the pod of an agent.
		provoke(account, "list leases.coordination.k8s.io")
		objects, err := render()
		if err != nil {
			return err
		}
		rights, err := rightsOf(cluster.UserName(anyNamespace, account), objects)
		if err != nil {
			return err
		}
		requests, err := shared.Requests(context.Background(), ":"+account)
		if err != nil {
			return err
		}
		for _, q := range audit.requests {
			if strings.HasSuffix(q.User, ":"+account) {
				requests = append(requests, q)
			}
		}
		// What a dry run may do the agent may do too, and one dry run does not need all of it. A watch, and the
		// program that has pods hand over, patch only an Event that they repeat.
		uses := account != lookingAccount && account != watchingAccount && account != handoverAccount
		errs = append(errs, judge(account, rights, requests, isWhole() && uses))
	}
	return errors.Join(errs...)
}

// basicRights are what everyone may ask the API server, by the ClusterRole system:basic-user.
var basicRights = []right{
	{verb: "create", group: "authorization.k8s.io", resource: "selfsubjectaccessreviews"},
	{verb: "create", group: "authentication.k8s.io", resource: "selfsubjectreviews"},
}

// judge compares the rights of an account with its requests. A request that was refused does not count as use.
func judge(account string, rights []right, requests []cluster.Request, whole bool) error {
	var errs []error
	unused, unlawful := slices.Clone(rights), map[string][]cluster.Request{}
	for _, q := range requests {
		if slices.ContainsFunc(basicRights, func(r right) bool { return r.covers(q) }) {
			continue
		}
		is := func(r right) bool { return r.covers(q) }
		if !slices.ContainsFunc(rights, is) {
			unlawful[account+": "+requested(q)] = append(unlawful[account+": "+requested(q)], q)
		} else if q.Code != http.StatusForbidden {
			unused = slices.DeleteFunc(unused, is)
		}
	}
	audit.Lock()
	defer audit.Unlock()
	for what, all := range unlawful {
		if !slices.Contains(audit.provoked, what) {
			errs = append(errs, fmt.Errorf("%s: not granted by the chart, and requested %d times, as by %s of %s",
				what, len(all), all[0].Path, all[0].User))
		}
	}
	if whole {
		for _, r := range unused {
			errs = append(errs, fmt.Errorf("%s: %s: granted by the chart, and used by no test", account, r))
		}
	}
	return errors.Join(errs...)
}

// requested names what a request needs to be granted.
func requested(q cluster.Request) string {
	if q.Resource == "" {
		return q.Verb + " " + q.Path
	}
	return q.Verb + " " + inGroup(q.FullResource(), q.Group)
}

// isWhole reports whether this run runs all tests.
func isWhole() bool {
	given := func(name string) string { return flag.Lookup(name).Value.String() }
	return !testing.Short() && given("test.run")+given("test.skip")+given("test.list") == ""
}

// TestJudge: an unused right and a missing right are named.
func TestJudge(t *testing.T) {
	t.Parallel()
	objects, err := renderAccess()
	if err != nil {
		t.Fatal(err)
	}
	rights, err := rightsOf(cluster.UserName(anyNamespace, agentAccount), objects)
	if err != nil {
		t.Fatal(err)
	}
	var used []cluster.Request // of an agent in namespace "agents", each right once
	for _, r := range rights {
		resource, sub, _ := strings.Cut(r.resource, "/")
		used = append(used, cluster.Request{
			User: cluster.UserName("agents", agentAccount), Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub,
			Namespace: "agents", Name: strings.ReplaceAll(r.name, anyNamespace, "agents"), Code: http.StatusOK,
		})
	}
	change := func(change func(*cluster.Request)) []cluster.Request {
		changed := slices.Clone(used)
		for i := range changed {
			change(&changed[i])
		}
		return changed
	}
	for name, tt := range map[string]struct {
		rights   []right
		requests []cluster.Request
		says     []string
	}{
		"all of it":        {rights, used, nil},
		"a right too many": {append(slices.Clone(rights), right{verb: "update", resource: "nodes"}), used, []string{"update nodes: granted"}},
		"a right too few": {
			slices.DeleteFunc(slices.Clone(rights), func(r right) bool { return r.resource == "nodes/status" }), used,
			[]string{"patch nodes/status: not granted"},
		},
		"another's Lease, and a right that was refused each time": {
			rights, change(func(q *cluster.Request) {
				if q.Resource == "leases" && q.Verb == "update" {
					q.Name = "kube-scheduler"
				}
				if q.Subresource == "eviction" {
					q.Code = http.StatusForbidden
				}
			}), []string{
				"update leases.coordination.k8s.io: not granted", "update leases.coordination.k8s.io " + anyNamespace,
				"create pods/eviction: granted",
			},
		},
		"a Lease elsewhere, and a path that is no resource": {
			rights, append(change(func(q *cluster.Request) {
				if q.Resource == "leases" && q.Verb == "create" {
					q.Namespace = "kube-system"
				}
			}), cluster.Request{Verb: "get", Path: "/metrics"}), []string{
				"create leases.coordination.k8s.io: not granted", "create leases.coordination.k8s.io in its own", "get /metrics: not granted",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := judge(agentAccount, tt.rights, tt.requests, true)
			lines := strings.Count(fmt.Sprint(err), "\n") + 1
			if (err == nil) != (tt.says == nil) || err != nil && lines != len(tt.says) {
				t.Errorf("it says %v, want %q", err, tt.says)
			}
			for _, what := range tt.says {
				if !strings.Contains(fmt.Sprint(err), what) {
					t.Errorf("it says %v, want %q", err, what)
				}
			}
		})
	}
}
