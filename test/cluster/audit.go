package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// Request is one request that the API server answered.
type Request struct {
	User        string
	Verb        string // As RBAC calls it: get, list, watch, create, update, patch, delete.
	Path        string // As asked for, without the query; what RBAC judges by if there is no Resource.
	Group       string // Empty for the core group.
	Resource    string // Empty for a path such as /readyz.
	Subresource string
	Namespace   string
	Name        string
	Code        int
	At          time.Time // When it was received.
}

// auditEvent is what we read of a line of the audit log.
type auditEvent struct {
	AuditID    string
	Stage      string
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  struct{ APIGroup, Resource, Subresource, Namespace, Name string }

	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
}

// Requests returns the requests of a user to the API server so far, in the order of the responses. user is
// the name, as UserName returns it for a ServiceAccount, or a suffix of names. A watch counts once, when it
// begins. The list has all requests that have been answered, because the server writes the audit log before
// it responds.
func (c *ControlPlane) Requests(ctx context.Context, user string) ([]Request, error) {
	log, err := os.Open(c.folder.path(logsDir, auditLog))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var requests []Request
	seen := map[string]bool{}
	lines := bufio.NewReader(log)
	for ctx.Err() == nil {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return requests, nil // The text after the last newline is still being written.
		}
		if err != nil {
			return nil, err
		}
		if e, ok := parseAudit(line, user); ok && !seen[e.AuditID] {
			seen[e.AuditID] = true
			requests = append(requests, e.request())
		}
	}
	return nil, ctx.Err()
}

// parseAudit reads one line, if it is about the user. It skips incomplete lines, which an API server that was
// killed leaves.
func parseAudit(line []byte, user string) (e auditEvent, ok bool) {
	if !bytes.Contains(line, []byte(user)) || json.Unmarshal(line, &e) != nil {
		return e, false
	}
	answered := e.Stage == "ResponseComplete" || e.Stage == "ResponseStarted"
	return e, answered && strings.HasSuffix(e.User.Username, user)
}

func (e auditEvent) request() Request {
	path, _, _ := strings.Cut(e.RequestURI, "?")
	return Request{
		User: e.User.Username, Verb: e.Verb, Path: path,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, At: e.RequestReceivedTimestamp,
	}
}

// FullResource returns the resource with its subresource, as RBAC writes them: pods/eviction.
func (r Request) FullResource() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}
