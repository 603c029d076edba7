package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/node-drainer/node-drainer/internal/cloud"
)

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		err                 error
		code                string
		throttle, transient bool
	}{
		{&smithy.GenericAPIError{Code: "ValidationError"}, "ValidationError", false, false},
		{fmt.Errorf("call: %w", &smithy.GenericAPIError{Code: "Throttling"}), "Throttling", true, true},
		{&smithy.GenericAPIError{Code: "RequestTimeout"}, "RequestTimeout", false, true},
		{errors.New("no answer"), "", false, false},
	} {
		if cloud.ErrorCode(tt.err) != tt.code || cloud.IsThrottle(tt.err) != tt.throttle || cloud.IsTransient(tt.err) != tt.transient {
			t.Errorf("%v: code %q, throttle %v, transient %v",
				tt.err, cloud.ErrorCode(tt.err), cloud.IsThrottle(tt.err), cloud.IsTransient(tt.err))
		}
	}
}

// TestHint: only what the user can correct has a hint.
func TestHint(t *testing.T) {
	lookup := func(host string) error { return &net.DNSError{Name: host, Err: "no such host", IsNotFound: true} }
	call := func(service string, err error) error { return &smithy.OperationError{ServiceID: service, Err: err} }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&smithy.GenericAPIError{Code: "ValidationError"}, ""},
		{&smithy.GenericAPIError{Code: "Throttling"}, ""},
		{fmt.Errorf("call: %w", &smithy.GenericAPIError{Code: "ExpiredTokenException"}), "new credentials"},
		{&smithy.GenericAPIError{Code: "UnrecognizedClientException"}, "enabled the Region"},
		{&smithy.GenericAPIError{Code: "InvalidSignatureException"}, "clock"},
		{&smithy.GenericAPIError{Code: "UnauthorizedOperation"}, "docs/iam.md"},
		{lookup("autoscaling.eu-cental-1.amazonaws.com"), "is the Region right"},
		{lookup("kubernetes.example.com"), ""},
		{call("EC2", &smithyhttp.RequestSendError{Err: errors.New("refused")}), "can this host reach AWS"},
		{call("EC2", &smithy.CanceledError{Err: context.DeadlineExceeded}), "can this host reach AWS"},
		{call("EC2", &smithy.CanceledError{Err: context.Canceled}), ""},
		{call("ec2imds", &smithyhttp.RequestSendError{Err: errors.New("refused")}), ""},
		{errors.New("refused"), ""},
	} {
		if got := cloud.Hint(tt.err); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
