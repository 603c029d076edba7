package cloud

import (
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
)

// ErrorCode returns the code of an error that AWS answered with, for example "ValidationError". It is empty
// for other errors.
func ErrorCode(err error) string {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return answer.ErrorCode()
	}
	return ""
}

// IsThrottle reports whether AWS refused the call as one too many, and so did nothing.
func IsThrottle(err error) bool {
	return retry.IsErrorThrottles(retry.DefaultThrottles).IsErrorThrottle(err) == aws.TrueTernary
}

// IsTransient reports whether the SDK would retry the call: the same call may succeed later.
func IsTransient(err error) bool {
	retryable := retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err)
	return IsThrottle(err) || retryable == aws.TrueTernary
}

// IsDenied reports whether AWS refused the call because a permission is missing. The services name that differently:
// Auto Scaling AccessDenied, EC2 UnauthorizedOperation, those with JSON AccessDeniedException.
func IsDenied(err error) bool {
	return slices.Contains([]string{
		"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError",
	}, ErrorCode(err))
}
