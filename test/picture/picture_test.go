package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestSVG(t *testing.T) {
	t.Parallel()
	svg := SVG("A & B", "status\r\x1b[?25l\x1b[1mone\x1b[0m <two>\x1b[K\r\n\r\n\x1b[33mthree\x1b[0m\x1b[J\n")
	for _, want := range []string{
		`width="108" height="89"`, // 9 columns and 3 lines
		"<title>A &amp; B</title>",
		`y="30" xml:space="preserve"><tspan class="s1">one</tspan> &lt;two&gt;</text>`,
		`y="68" xml:space="preserve"><tspan class="s33">three</tspan></text>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	if moving := SVG("A", "one\ntwo", 0, 1500*time.Millisecond); strings.Contains(svg, "animation") ||
		!strings.Contains(moving, `y="49" style="animation-delay:1.5s"`) || !strings.Contains(moving, "prefers-reduced-motion") {
		t.Errorf("it does not move, or %s does", svg)
	}
	for tokens := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := tokens.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}
