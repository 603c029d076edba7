package awsim

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// codeDropped is the code under which a call is kept whose connection ended without an answer.
const codeDropped = "Dropped"

// errDropped ends a request without an answer: the client sees its connection closed.
var errDropped = errors.New("the connection is dropped")

// Fault makes calls slow, answers them with an error, or drops them.
type Fault struct {
	Service string // autoscaling, cloudwatch, ec2, eks, sqs or ssm; any if empty.
	Action  string // Such as ReceiveMessage; any if empty.
	Client  string // The beginning of the access key that signs the call; any if empty.

	// What is answered, by the first of these that is set; without any, the fault only slows calls down.
	Drop        bool   // No answer: the connection is closed.
	Throttle    bool   // That the rate is exceeded, as the service says it.
	Unavailable bool   // That the service is unavailable, as it says it.
	Code        string // An error, with Message and Status.
	Message     string
	Status      int // 400 if a Code is given without it.

	Latency time.Duration // A delay before anything else.
	// AfterApply lets the action take effect first, so that the reported failure was none.
	AfterApply bool
	// Times is how many calls the fault hits; 0 is all until it is removed.
	Times int
	// For is how long the fault lasts; zero is until it is removed.
	For time.Duration
	// Rand decides, with the probability Share, whether the fault hits a call; while it is nil, every call is hit.
	// Nothing else may use it while the fault lasts.
	Rand  *rand.Rand
	Share float64
	// Match narrows the fault to some calls: the form of a Query call, the JSON of any other.
	Match func(values url.Values, body []byte) bool
}

// answers reports whether the fault does more than slow a call down.
func (f Fault) answers() bool {
	return f.Drop || f.Throttle || f.Unavailable || f.Code != "" || f.Status != 0
}

// err is what the client of a service gets to see.
func (f Fault) err(service string) error {
	switch {
	case f.Drop:
		return errDropped
	case f.Throttle:
		return throttled(service)
	case f.Unavailable:
		return unavailable(service)
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

func throttled(service string) *Error {
	switch service {
	case "ec2":
		return unavailableError("RequestLimitExceeded", "Request limit exceeded.")
	case "sqs":
		return errorf("RequestThrottled", "Request is throttled.")
	case eksName:
		return &Error{Code: "ThrottlingException", Message: "Rate exceeded", Status: http.StatusTooManyRequests}
	case "ssm":
		return errorf("ThrottlingException", "Rate exceeded")
	default:
		return errorf("Throttling", "Rate exceeded")
	}
}

func unavailable(service string) *Error {
	code := "ServiceUnavailable"
	switch service {
	case "ec2":
		code = "Unavailable"
	case eksName:
		code = "ServiceUnavailableException"
	}
	return unavailableError(code, "The service is unavailable. Please try again shortly.")
}

// unavailableError returns an error with the status 503.
func unavailableError(code, message string) *Error {
	return &Error{Code: code, Message: message, Status: http.StatusServiceUnavailable}
}

func (f Fault) matches(req request) bool {
	return (f.Service == "" || f.Service == req.service.name) &&
		(f.Action == "" || f.Action == req.action) && strings.HasPrefix(req.key, f.Client) &&
		(f.Match == nil || f.Match(req.in.Values, req.in.Body))
}

// injected is a fault with the time of its end, which is zero if it has none.
type injected struct {
	Fault
	until time.Time
}

// hits decides whether the fault hits a call that it matches.
func (f *injected) hits() bool { return f.Rand == nil || f.Rand.Float64() < f.Share }

func (f *injected) ended(now time.Time) bool { return !f.until.IsZero() && !now.Before(f.until) }

// faults are in the order of their injection. Of those that match a call, all that only slow it down hit it, and
// the first that answers it.
type faults struct {
	mu   sync.Mutex
	list []*injected
}

// Inject adds a fault. It stays until its time is over, it has hit Times calls, or it is removed.
func (s *Server) Inject(f Fault) (remove func()) {
	fault := &injected{Fault: f}
	if f.For > 0 {
		fault.until = time.Now().Add(f.For)
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.list = append(s.faults.list, fault)
	return func() { s.faults.removeIf(func(f *injected) bool { return f == fault }) }
}

func (fs *faults) removeIf(gone func(f *injected) bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = slices.DeleteFunc(fs.list, gone)
}

// take returns how long a call is delayed and the fault that answers it, nil without one. It counts the hits.
func (fs *faults) take(req request, now time.Time) (latency time.Duration, answer *Fault) {
	fs.removeIf(func(f *injected) bool { return f.ended(now) })
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = slices.DeleteFunc(fs.list, func(f *injected) bool {
		if answer != nil && f.answers() || !f.matches(req) || !f.hits() {
			return false
		}
		latency += f.Latency
		if f.answers() {
			answer = new(f.Fault)
		}
		f.Times--
		return f.Times == 0
	})
	return latency, answer
}
