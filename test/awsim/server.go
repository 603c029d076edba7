// Package awsim is a small AWS on loopback: SQS, EC2 Auto Scaling, EC2 and STS over HTTP, in memory, with
// faults on demand. It is written from the wire up, without the AWS SDK, so that it checks what the SDK sends.
package awsim

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxBody bounds a request body: SQS takes 1 MiB of messages, plus their JSON escapes.
const maxBody = 8 << 20

// Error is an answer other than success, as AWS gives it: a code, a message and an HTTP status.
type Error struct {
	Code    string
	Message string
	Status  int
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// service is one AWS service behind the server's only port.
type service struct {
	name string
	// encode writes what an action returned, in the service's own protocol.
	encode func(w http.ResponseWriter, action, requestID string, out any)
	// fail writes an error in the service's own protocol.
	fail func(w http.ResponseWriter, requestID string, err *Error)
	// actions by name. Query services read url.Values, JSON services read the body.
	actions map[string]actionFunc
}

type actionFunc func(ctx context.Context, in input) (out any, err error)

// input is what a client sent: form values for the Query protocol, a JSON document for JSON 1.0.
type input struct {
	Values url.Values
	Body   []byte
}
