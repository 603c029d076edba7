package awsim

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
)

const (
	xmlType      = "text/xml"
	ec2Namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"
)

// queryService is a service that speaks the Query protocol: a form in, XML with a Result element out.
func queryService(name, namespace string, actions map[string]actionFunc) *service {
	return &service{
		name:        name,
		contentType: xmlType,
		actions:     actions,
		encode: func(action, requestID string, out any) ([]byte, error) {
			return encodeQuery(namespace, action, requestID, out)
		},
		fail: func(_ http.Header, requestID string, err *Error) []byte {
			return failQuery(namespace, requestID, err)
		},
	}
}

// ec2Service is EC2 with its own dialect of the Query protocol: no Result element around the fields,
// and another shape of errors.
func ec2Service(actions map[string]actionFunc) *service {
	return &service{name: "ec2", contentType: xmlType, actions: actions, encode: encodeEC2, fail: failEC2}
}

func encodeQuery(namespace, action, requestID string, out any) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<%sResponse xmlns=%q>", action, namespace)
	if out != nil {
		if err := encodeElement(&b, action+"Result", out); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(&b, "<ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>",
		requestID, action)
	return b.Bytes(), nil
}

// encodeEC2 puts the request's id before the fields of out, in the same element.
func encodeEC2(action, requestID string, out any) ([]byte, error) {
	var fields bytes.Buffer
	name := action + "Response"
	if err := encodeElement(&fields, name, out); err != nil {
		return nil, err
	}
	inner := bytes.TrimPrefix(fields.Bytes(), []byte("<"+name+">"))
	return fmt.Appendf(nil, "<%s xmlns=%q><requestId>%s</requestId>%s", name, ec2Namespace, requestID, inner), nil
}

func encodeElement(b *bytes.Buffer, name string, v any) error {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	if err := xml.NewEncoder(b).EncodeElement(v, start); err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return nil
}

func failQuery(namespace, requestID string, err *Error) []byte {
	return fmt.Appendf(nil, "<ErrorResponse xmlns=%q><Error><Type>%s</Type><Code>%s</Code>"+
		"<Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>",
		namespace, err.fault(), escape(err.Code), escape(err.Message), requestID)
}

func failEC2(_ http.Header, requestID string, err *Error) []byte {
	return fmt.Appendf(nil, "<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors>"+
		"<RequestID>%s</RequestID></Response>", escape(err.Code), escape(err.Message), requestID)
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
