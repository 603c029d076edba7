package cloud

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
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

// Hint says what the user can do about an error of a call that no service could execute: the credentials, the
// permissions, the Region or the network are wrong. It is empty for other errors.
func Hint(err error) string {
	is := func(codes ...string) bool { return slices.Contains(codes, ErrorCode(err)) }
	switch {
	case is("ExpiredToken", "ExpiredTokenException"):
		return "get new credentials, for example with aws sso login"
	case is("InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "AuthFailure", "OptInRequired"):
		return "check the credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID), and whether the account has enabled the Region"
	case is("SignatureDoesNotMatch", "InvalidSignatureException", "RequestTimeTooSkewed", "RequestExpired"):
		return "check the clock of this host, and AWS_SECRET_ACCESS_KEY"
	case IsDenied(err):
		return "allow it to this identity: docs/iam.md lists what is needed"
	case isUnknownHost(err):
		return "is the Region right (AWS_REGION, --region)?"
	case isUnanswered(err):
		return ReachHint
	}
	return ""
}

// ReachHint asks whether AWS can be reached.
const ReachHint = "can this host reach AWS (network, HTTPS_PROXY, AWS_ENDPOINT_URL)?"

// isUnknownHost reports whether a host of AWS does not exist. Its name has the Region.
func isUnknownHost(err error) bool {
	unknown, ok := errors.AsType[*net.DNSError](err)
	return ok && unknown.IsNotFound && strings.Contains(unknown.Name, ".amazonaws.com")
}

// isUnanswered reports whether no service of AWS has answered the call: nothing did, or something else, such as a
// proxy. The instance metadata is no service: most hosts have none.
func isUnanswered(err error) bool {
	call, ok := errors.AsType[*smithy.OperationError](err)
	if !ok || call.Service() == imds.ServiceID || errors.Is(err, context.Canceled) {
		return false
	}
	_, unsent := errors.AsType[*smithyhttp.RequestSendError](err)
	_, unreadable := errors.AsType[*smithy.DeserializationError](err)
	return unsent || unreadable || errors.Is(err, context.DeadlineExceeded)
}
