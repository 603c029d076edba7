package awsim

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// sqsNamespace is that of the answers of SQS in the Query protocol, which it spoke before JSON and which
// older clients, among them Debian's, still speak.
const sqsNamespace = "http://queue.amazonaws.com/doc/2012-11-05/"

// sqsQueryService puts the Query protocol before the actions of the JSON protocol: the form becomes their
// JSON, and their answer flat XML.
func sqsQueryService(actions map[string]actionFunc) *service {
	translated := map[string]actionFunc{}
	for name, action := range actions {
		translated[name] = func(ctx context.Context, in input) (any, error) {
			body, err := formToJSON(in.Values)
			if err != nil {
				return nil, err
			}
			return action(ctx, input{Values: in.Values, Body: body})
		}
	}
	svc := queryService("sqs", sqsNamespace, translated)
	svc.encode = encodeFlat
	svc.fail = func(_ http.Header, requestID string, err *Error) []byte {
		return failQuery(sqsNamespace, requestID, &Error{queryCode(err.Code), err.Message, err.Status})
	}
	return svc
}

// form is a form's fields by the parts of their names: A.1.B=x is A, in it 1, in it B, with the text x.
type form struct {
	text  string
	parts map[string]*form
}

func (f *form) part(name string) *form {
	if f.parts == nil {
		f.parts = map[string]*form{}
	}
	if f.parts[name] == nil {
		f.parts[name] = &form{}
	}
	return f.parts[name]
}

// formField is the JSON name of a field of a form, and the conversion of its value.
type formField struct {
	name    string
	convert func(*form) (any, error)
}

// formFields are the fields of all actions whose name or type differs from the one in JSON; the others are
// texts.
func formFields() map[string]formField {
	return map[string]formField{
		"DelaySeconds":               {"DelaySeconds", formNumber},
		"MaxNumberOfMessages":        {"MaxNumberOfMessages", formNumber},
		"MaxResults":                 {"MaxResults", formNumber},
		"VisibilityTimeout":          {"VisibilityTimeout", formNumber},
		"WaitTimeSeconds":            {"WaitTimeSeconds", formNumber},
		"AttributeName":              {"AttributeNames", formList(formText)},
		"MessageAttributeName":       {"MessageAttributeNames", formList(formText)},
		"MessageSystemAttributeName": {"MessageSystemAttributeNames", formList(formText)},
		"Attribute":                  {"Attributes", formPairs("Name")},
		"MessageAttribute":           {"MessageAttributes", formPairs("Name")},
		"MessageSystemAttribute":     {"MessageSystemAttributes", formPairs("Name")},
		"Tag":                        {"tags", formPairs("Key")},

		"SendMessageBatchRequestEntry":             {"Entries", formList(formObject)},
		"DeleteMessageBatchRequestEntry":           {"Entries", formList(formObject)},
		"ChangeMessageVisibilityBatchRequestEntry": {"Entries", formList(formObject)},
	}
}

// formToJSON is the document that a client of today would have sent. An empty list is an empty field in a
// form, so that empty fields are left out.
func formToJSON(values url.Values) ([]byte, error) {
	root := &form{}
	for name, value := range values {
		if name == "Action" || name == "Version" || value[0] == "" && !strings.Contains(name, ".") {
			continue
		}
		field := root
		for part := range strings.SplitSeq(name, ".") {
			field = field.part(part)
		}
		field.text = value[0]
	}
	object, err := formObject(root)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("translate a form: %w", err)
	}
	return body, nil
}

func formObject(f *form) (any, error) {
	fields, object := formFields(), map[string]any{}
	for name, part := range f.parts {
		field, ok := fields[name]
		if !ok {
			field = formField{name, formText}
		}
		value, err := field.convert(part)
		if err != nil {
			return nil, err
		}
		object[field.name] = value
	}
	return object, nil
}

func formText(f *form) (any, error) { return f.text, nil }

func formNumber(f *form) (any, error) {
	n, err := strconv.Atoi(f.text)
	if err != nil {
		return nil, errorf("MalformedInput", "%q is no number.", f.text)
	}
	return n, nil
}

// formList is what is numbered, in the order of the numbers.
func formList(convert func(*form) (any, error)) func(*form) (any, error) {
	return func(f *form) (any, error) {
		byNumber := map[int]*form{}
		for text, part := range f.parts {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, errorf("MalformedInput", "A list has an entry %q, which is no number.", text)
			}
			byNumber[n] = part
		}
		list := []any{}
		for _, n := range sortedKeys(byNumber) {
			value, err := convert(byNumber[n])
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}
}

// formPairs is a map, which a form numbers as it does a list: A.1.Name=x and A.1.Value=y.
func formPairs(key string) func(*form) (any, error) {
	return func(f *form) (any, error) {
		pairs := map[string]any{}
		for _, part := range f.parts {
			value := part.part("Value")
			if value.parts == nil {
				pairs[part.part(key).text] = value.text
				continue
			}
			object, err := formObject(value)
			if err != nil {
				return nil, err
			}
			pairs[part.part(key).text] = object
		}
		return pairs, nil
	}
}

// element is any XML.
type element struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Children []element `xml:",any"`
}

// encodeFlat is an answer in XML. It is taken from its JSON, so that the names of fields stand in one place.
func encodeFlat(action, requestID string, out any) ([]byte, error) {
	if out == nil {
		return encodeQuery(sqsNamespace, action, requestID, nil)
	}
	document, err := encodeJSON(action, requestID, out)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, fmt.Errorf("translate the answer to %s: %w", action, err)
	}
	names := map[string]string{
		"QueueUrls":  "QueueUrl",
		"Messages":   "Message",
		"Attributes": "Attribute",
		"Successful": action + "ResultEntry",
		"Failed":     "BatchResultErrorEntry",
	}
	return encodeQuery(sqsNamespace, action, requestID, element{Children: flatten(names, fields)})
}

// flatten is the fields of an object. Of a list, and of a map, every entry is an element of its own beside
// the other fields, under the name that names has for it.
func flatten(names map[string]string, fields map[string]any) []element {
	var out []element
	for _, name := range sortedKeys(fields) {
		switch value := fields[name].(type) {
		case []any:
			for _, entry := range value {
				out = append(out, entryElement(names, names[name], entry))
			}
		case map[string]any:
			for _, key := range sortedKeys(value) {
				pair := map[string]any{"Name": key, "Value": value[key]}
				out = append(out, entryElement(names, names[name], pair))
			}
		default:
			out = append(out, entryElement(names, name, value))
		}
	}
	return slices.Clip(out)
}

func entryElement(names map[string]string, name string, value any) element {
	out := element{XMLName: xml.Name{Local: name}}
	if fields, ok := value.(map[string]any); ok {
		out.Children = flatten(names, fields)
	} else {
		out.Text = fmt.Sprint(value)
	}
	return out
}
