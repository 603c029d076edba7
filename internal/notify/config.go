// Package notify posts messages about drains to a URL, such as an incoming webhook of Slack.
package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"golang.org/x/net/http/httpguts"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Config configures messages, by environment variables that begin with NOTIFY_.
type Config struct {
	URL      string        `env:"URL" envDefault:"" secret:"true" help:"URL that the agent posts messages about drains to, such as an incoming webhook of Slack. Never logged. Empty: no messages."`
	Headers  string        `env:"HEADERS" envDefault:"" secret:"true" help:"Headers of these requests, as a JSON object of texts. Never logged. Empty: Content-Type is application/json."`
	Template string        `env:"TEMPLATE" envDefault:"{\"text\": {{json .Text}}}" help:"Template of the body, in the language of Go's text/template. The default suits Slack, Mattermost, Google Chat and Rocket.Chat."`
	When     string        `env:"WHEN" envDefault:"drained, failed" help:"What messages are about, separated by commas: started, drained (all pods have left) and failed (not all have)."`
	Timeout  time.Duration `env:"TIMEOUT" envDefault:"5s" min:"1s" max:"1m" help:"Longest time of one request."`
}

// Validate returns an error for each variable that is wrong. No error contains the URL or a header.
func (c Config) Validate() error {
	_, err := c.parse()
	return err
}

// settings are a Config in the form in which it is used.
type settings struct {
	header   http.Header
	template *template.Template
	when     []Status
}

func (c Config) parse() (settings, error) {
	header, headerErr := parseHeaders(c.Headers)
	body, templateErr := parseTemplate(c.Template, isJSON(header))
	when, whenErr := parseWhen(c.When)
	return settings{header, body, when}, errors.Join(checkURL(c.URL), headerErr, templateErr, whenErr)
}

// checkURL does not return the error of url.Parse, which contains the URL.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if text == "" || err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		return nil
	}
	return errors.New("NOTIFY_URL is invalid: must be https://HOST/PATH or http://HOST/PATH")
}

const contentType = "Content-Type"

// parseHeaders returns the headers of a JSON object, and the Content-Type that it lacks.
func parseHeaders(text string) (http.Header, error) {
	header, values := http.Header{}, map[string]string{}
	if text != "" && json.Unmarshal([]byte(text), &values) != nil {
		return header, errors.New("NOTIFY_HEADERS is invalid: must be a JSON object of texts, " +
			`such as {"Authorization": "Bearer TOKEN"}`)
	}
	for name, value := range values {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return header, fmt.Errorf("NOTIFY_HEADERS is invalid: the name or the value of header %q", name)
		}
		header.Set(name, value)
	}
	if header.Get(contentType) == "" {
		header.Set(contentType, "application/json")
	}
	return header, nil
}

// isJSON reports whether the body is to be JSON.
func isJSON(header http.Header) bool {
	media, _, _ := mime.ParseMediaType(header.Get(contentType))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

func parseWhen(list string) (when []Status, err error) {
	for _, word := range text.Split(list) {
		if !slices.Contains(statuses(), Status(word)) {
			return nil, fmt.Errorf("NOTIFY_WHEN is %q: must be a list of started, drained and failed", list)
		}
		when = append(when, Status(word))
	}
	return when, nil
}
