package cloud

import (
	"bytes"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// InMemory wraps the client so that the bodies of its requests are of a type that net/http knows to be in
// memory.
//
// The SDK closes a request's body as soon as it has received the response's header. net/http's client may
// still read that body: having sent all of it, it checks for more. The body is smithy-go's
// safeWriteToReadCloser, whose WriteTo returns io.EOF once it is closed, where nil would be right. net/http
// takes that for a failed write and closes the connection before the rest of the response is read: "use of
// closed network connection", for a call that AWS has executed. net/http reads a body that it knows to be in
// memory to its end first, and then sends it together with the header.
func InMemory(client aws.HTTPClient) aws.HTTPClient { return inMemory{client} }

type inMemory struct{ client aws.HTTPClient }

// Do is net/http's.
func (m inMemory) Do(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return m.client.Do(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	copied := req.WithContext(req.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	return m.client.Do(copied)
}
