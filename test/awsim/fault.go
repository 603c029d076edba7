package awsim

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// codeDropped is the code under which a call is kept whose connection ended without an answer.
const codeDropped = "Dropped"

// errDropped ends a request without an answer: the client sees its connection closed.
var errDropped = errors.New("the connection is dropped")

// Fault makes calls slow, answers them with an error, or drops them.
type Fault struct {
	Service string // autoscaling, ec2 or sqs; any if empty.
	Action  string // Such as ReceiveMessage; any if empty.

	Code    string // What is answered; no error if both Code and Status are unset.
	Message string
	Status  int           // 400 if a Code is given without it.
	Latency time.Duration // A delay before anything else.
	Drop    bool          // Close the connection without an answer.

	// AfterApply lets the action take effect first, so that the reported failure was none.
	AfterApply bool
	// Times is how many calls the fault hits; 0 is all until it is removed.
	Times int
	// Match narrows the fault to some calls: the form of a Query call, the JSON of any other.
	Match func(values url.Values, body []byte) bool
}

// err is what the client gets to see, or nil if the fault is only slow.
func (f Fault) err() error {
	if f.Drop {
		return errDropped
	}
	if f.Code == "" && f.Status == 0 {
		return nil
	}
	e := &Error{Code: f.Code, Message: f.Message, Status: f.Status}
	if e.Code == "" {
		e.Code = "InternalFailure"
	}
	if e.Status == 0 {
		e.Status = http.StatusBadRequest
	}
	if e.Message == "" {
		e.Message = "A fault was injected."
	}
	return e
}

func (f Fault) matches(req request) bool {
	return (f.Service == "" || f.Service == req.service.name) &&
		(f.Action == "" || f.Action == req.action) &&
		(f.Match == nil || f.Match(req.in.Values, req.in.Body))
}

// faults are in the order of their injection. The first one that matches a call hits it, alone.
type faults struct {
	mu   sync.Mutex
	list []*Fault
}

// Inject adds a fault. It stays until it has hit Times calls, or is removed.
func (s *Server) Inject(f Fault) (remove func()) {
	fault := &f
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.list = append(s.faults.list, fault)
	return func() { s.faults.remove(fault) }
}

func (fs *faults) remove(fault *Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = slices.DeleteFunc(fs.list, func(f *Fault) bool { return f == fault })
}

// take finds the fault that hits a call, and counts the hit.
func (fs *faults) take(req request) (Fault, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	i := slices.IndexFunc(fs.list, func(f *Fault) bool { return f.matches(req) })
	if i < 0 {
		return Fault{}, false
	}
	hit := *fs.list[i]
	if hit.Times == 1 {
		fs.list = slices.Delete(fs.list, i, i+1)
	} else if hit.Times > 1 {
		fs.list[i].Times--
	}
	return hit, true
}
