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
	if out == nil {
		return []byte("{}"), nil
	}
	body, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", action, err)
	}
	return body, nil
}

func failJSON(h http.Header, _ string, err *Error) []byte {
	fault := "Sender"
	if err.Status >= http.StatusInternalServerError {
		fault = "Receiver"
	}
	h.Set("X-Amzn-Query-Error", queryCode(err.Code)+";"+fault)
	namespace := "com.amazon.coral.service#"
	if modelled(err.Code) {
		namespace = "com.amazonaws.sqs#"
	}
	body, _ := json.Marshal(struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}{namespace + err.Code, err.Message})
	return body
}

// queryCode is what the Query protocol called an error of today's model.
func queryCode(code string) string {
	const prefix = "AWS.SimpleQueueService."
	switch code {
	case "QueueDoesNotExist":
		return prefix + "NonExistentQueue"
	case "QueueNameExists":
		return "QueueAlreadyExists"
	case "BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidBatchEntryId",
		"MessageNotInflight", "PurgeQueueInProgress", "TooManyEntriesInBatchRequest", "UnsupportedOperation":
		return prefix + code
	case "AccessDeniedException":
		return "AccessDenied"
	}
	return code
}

// modelled reports whether an error is one of SQS's own shapes, as opposed to one of the front end.
func modelled(code string) bool {
	switch code {
	case "InvalidAttributeName", "InvalidAttributeValue", "InvalidMessageContents", "OverLimit",
		"ReceiptHandleIsInvalid", "RequestThrottled":
		return true
	}
	return queryCode(code) != code && code != "AccessDeniedException"
}

// decodeJSON reads a request. A field that the real API does not have is an error.
func decodeJSON[T any](in input) (T, error) {
	var v T
	decoder := json.NewDecoder(bytes.NewReader(in.Body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return v, errorf("SerializationException", "%v", err)
	}
	return v, nil
}
