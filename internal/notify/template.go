package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

// functions are those that templates have in addition to those of text/template: json quotes a text, or writes any
// other value, as JSON; join writes a list with a text in between; formatTime writes a time in UTC, in a layout of the
// package time. Templates cannot call methods: because of text/template itself, which calls them by name, the linker
// would keep all exported methods, and the agent would be more than twice as large.
func functions() template.FuncMap {
	return template.FuncMap{
		"json": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
		"join":       func(list []string, between string) string { return strings.Join(list, between) },
		"formatTime": func(layout string, t time.Time) string { return t.UTC().Format(layout) },
	}
}

// parseTemplate also executes the template with samples. Errors have the line and the column, but no text of the
// template outside of its actions, which may contain a secret.
func parseTemplate(text string, isJSON bool) (*template.Template, error) {
	t, err := template.New("NOTIFY_TEMPLATE").Funcs(functions()).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_TEMPLATE is invalid: %w", err)
	}
	for _, sample := range samples() {
		body, err := render(t, sample)
		if err != nil {
			return nil, fmt.Errorf("NOTIFY_TEMPLATE is invalid: %w", err)
		}
		if isJSON {
			if err := checkJSON(body); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func render(t *template.Template, m Message) ([]byte, error) {
	var body bytes.Buffer
	err := t.Execute(&body, m)
	return body.Bytes(), err
}

func checkJSON(body []byte) error {
	var v any
	err := json.Unmarshal(body, &v)
	if err == nil {
		return nil
	}
	end := len(body)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		end = min(end, int(syntax.Offset))
	}
	before := body[:end]
	line := bytes.Count(before, []byte("\n")) + 1
	column := end - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Errorf("NOTIFY_TEMPLATE is invalid: what it writes for a sample is not JSON at line %d, column %d: %w; "+
		"write texts with the function json, such as {{json .Text}}", line, column, err)
}

// samples are messages of each status, and of many drains. They contain characters that JSON does not permit in a text.
func samples() []Message {
	const odd = "a \"quoted\" text \\ of\ntwo lines"
	var each, many []Drain
	for _, status := range statuses() {
		d := Drain{
			Status: status, Node: "node", NodeUID: "uid", Instance: "i-0123456789abcdef0", Event: "event",
			Group: odd, Hook: odd, Cause: odd, Since: time.Unix(0, 0), Deadline: time.Unix(1, 0),
		}
		if status != Started {
			d.Result, d.Took, d.Pods, d.Forced = odd, time.Second, len(odd), 1
		}
		if status == Failed {
			d.Left = []string{odd, odd}
		}
		each = append(each, d)
	}
	for range maxDrains {
		many = append(many, each...)
	}
	all := []Message{newMessage(odd, many)}
	for _, d := range each {
		all = append(all, newMessage(odd, []Drain{d}))
	}
	return all
}
