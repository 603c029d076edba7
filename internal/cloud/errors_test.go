package cloud_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/smithy-go"

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
