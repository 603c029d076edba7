package cloud

import (
	"bytes"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// InMemory returns the client, but that the bodies of its requests are kinds that net/http knows to lie in
// memory.
//
// The SDK closes a request's body as soon as the answer's header is there. net/http's client may not have
// finished with that body yet: having sent all of it, it looks for more. What it then finds is smithy-go's
// safeWriteToReadCloser, whose WriteTo says io.EOF once it is closed, where nil would be right. net/http
// takes that for a failed write and closes the connection, with the rest of the answer in it: "use of closed
// network connection", for a call that AWS has served. A body that is known to lie in memory goes out
// together with the header, in one packet and after that look.
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
