package awsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// sqsService is SQS, which speaks JSON 1.0 and names its errors twice: by the shape of today's model, and
// by the code of the Query protocol that it spoke before, in a header, which the SDKs report.
func sqsService(actions map[string]actionFunc) *service {
	return &service{
		name:        "sqs",
		contentType: "application/x-amz-json-1.0",
		actions:     actions,
		encode:      encodeJSON,
		fail:        failJSON,
	}
}

func encodeJSON(action, _ string, out any) ([]byte, error) {
	body, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", action, err)
	}
	return body, nil
}

func failJSON(h http.Header, _ string, err *Error) []byte {
	h.Set("X-Amzn-Query-Error", queryCode(err.Code)+";"+err.fault())
	body, _ := json.Marshal(map[string]string{"__type": "com.amazonaws.sqs#" + err.Code, "message": err.Message})
	return body
}

// queryCode is what the Query protocol called an error of today's model.
func queryCode(code string) string {
	const prefix = "AWS.SimpleQueueService."
	switch code {
	case "QueueDoesNotExist":
		return prefix + "NonExistentQueue"
	case "BatchEntryIdsNotDistinct", "EmptyBatchRequest", "InvalidBatchEntryId", "MessageNotInflight",
		"TooManyEntriesInBatchRequest":
		return prefix + code
	case "AccessDeniedException":
		return "AccessDenied"
	}
	return code
}

// decodeJSON reads a request. A field that is not simulated is an error.
func decodeJSON[T any](in input) (T, error) {
	var v T
	decoder := json.NewDecoder(bytes.NewReader(in.Body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return v, errorf("SerializationException", "%v", err)
	}
	return v, nil
}
