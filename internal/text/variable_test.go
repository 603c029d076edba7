package text_test

import (
	"testing"

	"github.com/node-drainer/node-drainer/internal/text"
)

func TestIsServiceVariable(t *testing.T) {
	for name, want := range map[string]bool{
		"WEB_SERVICE_HOST": true, "WEB_SERVICE_PORT": true, "WEB_SERVICE_PORT_HTTP": true, "WEB_PORT": true,
		"WEB_API_PORT_80_TCP_ADDR": true, "WEB_REPORT": false, "WEB_PORTS": false, "WEB_HOST": false, "PORT": false,
	} {
		if got := text.IsServiceVariable(name); got != want {
			t.Errorf("IsServiceVariable(%q) = %v", name, got)
		}
	}
}
