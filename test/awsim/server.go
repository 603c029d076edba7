// Package awsim is a small AWS on loopback: SQS, EC2 Auto Scaling, EC2, managed node groups of EKS, parameters of
// Systems Manager, EventBridge's rules and CloudWatch's alarms over HTTP, in memory, with faults on demand. It is
// written from the wire up, without the AWS SDK, so that it checks what the SDK sends. A client only finds what the
// project's programs and their tests call.
package awsim

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Options configures a server. The zero value is a server on a free port of the loopback device.
type Options struct {
	Region  string // Part of every ARN; eu-central-1 if empty.
	Account string // Part of every ARN and queue URL; 123456789012 if empty.
	Listen  string // A host and a port; any port of the loopback if empty.
	// Queues are created with the server, with default attributes.
	Queues []string
	// Machines creates the nodes of instances; nil means no nodes.
	Machines Machines
	// Seed determines every identifier, and the order of a reordered queue: 0 is newest first, anything else
	// shuffles.
	Seed uint64
	// Log is called for what fails behind the API; nil means no log.
	Log func(format string, args ...any)
}

// Machines creates and removes the nodes of instances in a cluster.
type Machines interface {
	// Launch creates the instance's node.
	Launch(ctx context.Context, instanceID, zone string) error
	// Terminate removes the instance's node and returns the pods that were still running on it.
	Terminate(ctx context.Context, instanceID string) (killed []string, err error)
	// Pods returns the pods on the instance's node.
	Pods(ctx context.Context, instanceID string) ([]string, error)
}

// Error is an error response of AWS.
type Error struct {
	Code    string
	Message string
	Status  int
	// Members are what else the answer has, where the service's protocol has room for it.
	Members map[string]string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// fault is whose the error is, in AWS's words.
func (e *Error) fault() string {
	if e.Status < http.StatusInternalServerError {
		return "Sender"
	}
	return "Receiver"
}

// errorf returns a client error: status 400.
func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

// service is one AWS service behind the server's only port.
type service struct {
	name string
	// encode is an answer's body, in the service's own protocol.
	encode func(action, requestID string, out any) ([]byte, error)
	// fail writes an error's headers and is its body, in the service's own protocol.
	fail func(h http.Header, requestID string, err *Error) []byte
	// contentType is the one of every answer.
	contentType string
	// actions by name. Query services read url.Values, JSON services read the body.
	actions map[string]actionFunc
}

// actionFunc does one API call. An error that is no *Error is answered as InternalFailure.
type actionFunc func(ctx context.Context, in input) (out any, err error)

// input is what a client sent: form values for the Query protocol, a JSON document for JSON 1.0 and 1.1, both for REST,
// whose values are those of path and query.
type input struct {
	Key    string // The access key that signed it.
	Values url.Values
	Body   []byte
}

// Server is one AWS account in one region. Its methods may be called from many goroutines. Those of the
// embedded types are what a test can do and see without an API call.
type Server struct {
	AutoScaling
	Lifecycle
	EC2
	EKS
	Notices
	EventBridge
	SQS
	IAM
	CallLog
	Clock

	opts Options // With the defaults filled in.
	url  string

	ctx    context.Context // Ends with Close; every wait in this package ends with it.
	cancel context.CancelFunc
	http   *http.Server // Nil without a socket.

	work sync.WaitGroup // Serve, and the connections.

	services   map[string]*service // By API version for Query, by target prefix for JSON, others by name.
	requestIDs *identifiers
	faults     faults
	sqs        *sqs
	asg        *engine
}

type (
	// AutoScaling changes and shows Auto Scaling groups.
	AutoScaling struct{ asg *engine }
	// Lifecycle shows the lifecycle actions.
	Lifecycle struct{ asg *engine }
	// EC2 changes what instances are launched from, and what EC2 knows of them.
	EC2 struct{ asg *engine }
	// EKS changes and shows clusters and their managed node groups.
	EKS struct{ asg *engine }
	// Notices announces that EC2 takes instances back or changes them.
	Notices struct{ asg *engine }
	// EventBridge routes notifications and events to queues.
	EventBridge struct{ asg *engine }
	// SQS changes and shows queues.
	SQS struct{ sqs *sqs }
)

// New starts a server. The caller ends it with Close.
func New(opts Options) (*Server, error) {
	listener, err := net.Listen("tcp", cmp.Or(opts.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("awsim: %w", err)
	}
	s := NewUnconnected(opts)
	s.url = "http://" + listener.Addr().String()
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serveAWS),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnState:         s.connState,
	}
	s.work.Go(func() { _ = s.http.Serve(listener) })
	return s, nil
}

// NewUnconnected returns a server without a socket, for a bubble of testing/synctest: clients reach it through
// RoundTrip alone. The caller ends it with Close.
func NewUnconnected(opts Options) *Server {
	s := &Server{opts: opts.withDefaults(), url: "http://aws"}
	s.requestIDs = &identifiers{rand: s.opts.source("requests")}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.startQueues()
	s.IAM = IAM{server: s}
	for _, name := range opts.Queues {
		s.CreateQueue(name, nil)
	}
	s.startEngine()
	s.services = map[string]*service{
		"2011-01-01": queryService("autoscaling", "http://autoscaling.amazonaws.com/doc/2011-01-01/",
			autoscalingActions(s.asg)),
		"2016-11-15": ec2Service(ec2Actions(s.asg)),
		"2011-06-15": stsService(s),
		"AmazonSQS":  sqsService(sqsActions(s.sqs)),
		"CloudWatch": cloudwatchService(s.asg),
		"AmazonSSM":  ssmService(s.asg),
		"AWSEvents":  eventsService(s.asg),
		eksName:      eksService(s.asg),
	}
	return s
}

func (s *Server) startQueues() {
	s.sqs = newSQS(s)
	s.SQS = SQS{s.sqs}
}

func (s *Server) startEngine() {
	s.asg = newEngine(s)
	s.AutoScaling, s.Lifecycle, s.EC2 = AutoScaling{s.asg}, Lifecycle{s.asg}, EC2{s.asg}
	s.Notices, s.EventBridge, s.EKS = Notices{s.asg}, EventBridge{s.asg}, EKS{s.asg}
}

func (o Options) withDefaults() Options {
	if o.Region == "" {
		o.Region = "eu-central-1"
	}
	if o.Account == "" {
		o.Account = "123456789012"
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return o
}

// URL is the endpoint of every service, for AWS_ENDPOINT_URL.
func (s *Server) URL() string { return s.url }

// Close ends every request and every wait, and returns when nothing of the server runs any more.
func (s *Server) Close() error {
	s.cancel()
	defer s.asg.close()
	defer s.work.Wait()
	if s.http == nil {
		return nil
	}
	if err := s.http.Close(); err != nil {
		return fmt.Errorf("awsim: %w", err)
	}
	return nil
}

// connState counts connections, and so the requests on them: http.Server's own Close does not wait for their end.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.work.Add(1)
	case http.StateClosed:
		s.work.Done()
	}
}

// wait blocks for d or until ctx ends, and reports whether it waited the whole time.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
