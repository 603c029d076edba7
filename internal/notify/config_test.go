package notify_test

import (
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/notify"
)

// secret is part of URLs and headers: no error may contain it.
const secret = "T0/B0/X0secretX0"

// configure returns the default configuration with a URL, after a change.
func configure(change func(*notify.Config)) notify.Config {
	c := notify.Config{
		URL: "https://hooks.example.com/services/" + secret, Template: `{"text": {{json .Text}}}`,
		When: "started, drained, failed", Timeout: timeout,
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*notify.Config)
		want   string // of the error; empty for none
	}{
		{"the default", nil, ""},
		{"no URL", func(c *notify.Config) { c.URL = "" }, ""},
		{"URL without encryption", func(c *notify.Config) { c.URL = "http://receiver.monitoring:8080" }, ""},
		{"URL without a scheme", func(c *notify.Config) { c.URL = "hooks.example.com/" + secret }, "NOTIFY_URL is invalid"},
		{"URL of another scheme", func(c *notify.Config) { c.URL = "ftp://host/" + secret }, "NOTIFY_URL is invalid"},
		{"URL without a host", func(c *notify.Config) { c.URL = "https:///" + secret }, "NOTIFY_URL is invalid"},
		{"URL with a line break", func(c *notify.Config) { c.URL += "\n" }, "NOTIFY_URL is invalid"},
		{"headers", func(c *notify.Config) { c.Headers = `{"Authorization": "Bearer ` + secret + `"}` }, ""},
		{"header with a line break", func(c *notify.Config) { c.Headers = `{"A": "` + secret + `\nB: c"}` }, `NOTIFY_HEADERS is invalid: the name or the value of header "A"`},
		{"header name with a space", func(c *notify.Config) { c.Headers = `{"A B": "` + secret + `"}` }, `header "A B"`},
		{"header that is a number", func(c *notify.Config) { c.Headers = `{"A": 1}` }, "must be a JSON object of texts"},
		{"headers that are lines", func(c *notify.Config) { c.Headers = "A: " + secret }, "must be a JSON object of texts"},
		{"no status", func(c *notify.Config) { c.When = "" }, ""},
		{"unknown status", func(c *notify.Config) { c.When = "drained,ended" }, `NOTIFY_WHEN is "drained,ended": must be`},
		{"template with a mistake", template("{\n{{if}}"), "template: NOTIFY_TEMPLATE:2: missing value for if"},
		{"unknown field", template("{{.Drains}}\n{{.Nodes}}"), "NOTIFY_TEMPLATE:2:2: executing"},
		{"unknown field of a failed drain", template(`{{range .Drains}}{{if eq .Status "failed"}}{{.Pod}}{{end}}{{end}}`), "can't evaluate field Pod"},
		{"unknown function", template(`{{upper .Text}}`), `function "upper" not defined`},
		{"text in quotes", template("{\n  \"text\": \"{{.Text}}\"}"), "is not JSON at line 2, column "},
		{"secret in a template that is no JSON", template(`{"routing_key": "` + secret + `", "text": {{.Text}}}`), "is not JSON at line 1, column "},
		{"empty template", template(""), "is not JSON at line 1, column 0: unexpected end"},
		{"two JSON texts", template("{} {}"), "is not JSON at line 1, column 4"},
		{
			"text that is no JSON, of another type",
			func(c *notify.Config) { c.Template, c.Headers = "{{.Text}}", `{"content-type": "text/plain"}` }, "",
		},
		{
			"JSON of another type",
			func(c *notify.Config) {
				c.Template, c.Headers = "{{.Text}}", `{"Content-Type": "application/x+json; a=b"}`
			}, "is not JSON",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := configure(tt.change)
			err := c.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("the error is %v, want %s", err, tt.want)
			case err != nil && strings.Contains(err.Error(), secret):
				t.Errorf("the error contains the secret: %v", err)
			}
			if _, newErr := notify.New(c, "prod", nil); (newErr == nil) != (err == nil) {
				t.Errorf("New returns %v", newErr)
			}
		})
	}
}

func template(text string) func(*notify.Config) { return func(c *notify.Config) { c.Template = text } }
