package awsim

import (
	"context"
	"encoding/json"
	"net/http"
)

// ssmService is Systems Manager, which speaks JSON 1.1.
func ssmService(a *engine) *service {
	return &service{
		name:        "ssm",
		contentType: "application/x-amz-json-1.1",
		actions:     map[string]actionFunc{"GetParameter": parameterAPI{a}.getParameter},
		encode:      encodeJSON,
		fail: func(_ http.Header, _ string, err *Error) []byte {
			body, _ := json.Marshal(map[string]string{"__type": err.Code, "message": err.Message})
			return body
		},
	}
}

// parameterAPI is the action of the API of Systems Manager that is simulated.
type parameterAPI struct{ *engine }

type getParameterRequest struct {
	Name           string
	WithDecryption bool
}

type getParameterAnswer struct {
	Parameter parameterJSON
}

type parameterJSON struct {
	Name     string
	Type     string
	Value    string
	Version  int
	ARN      string
	DataType string
}

// parameterName returns the parameter that a call names. What is no JSON names none, and is refused by the action.
func parameterName(in input) string {
	var named getParameterRequest
	_ = json.Unmarshal(in.Body, &named)
	return named.Name
}

// getParameter shows a parameter, whose version is always 1 here.
func (a parameterAPI) getParameter(_ context.Context, in input) (any, error) {
	r, err := decodeJSON[getParameterRequest](in)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	value, known := a.parameters[r.Name]
	if !known {
		return nil, errorf("ParameterNotFound", "Parameter %s not found.", r.Name)
	}
	return getParameterAnswer{parameterJSON{
		Name: r.Name, Type: "String", Value: value, Version: 1, DataType: "text", ARN: a.catalog.parameterARN(r.Name),
	}}, nil
}
