// Package picture draws the text of a terminal as an SVG, so that pages show what a program prints.
package picture

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// In pixels.
const (
	charWidth  = 8.5 // of a monospaced font of 14 px, rounded up
	lineHeight = 19
	padding    = 16
	baseline   = 14
)

// style has the colors of both schemes, each with a contrast of at least 4.5 to its background.
const style = `
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328 }
  rect { fill: #f6f8fa; stroke: #d1d9e0 }
  .s1 { font-weight: bold } .s2 { fill: #59636e } .s31 { fill: #b3201d } .s32 { fill: #116329 } .s33 { fill: #7d4e00 }
  .s35 { fill: #7a3fd0 } .s36 { fill: #136a70 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } rect { fill: #161b22; stroke: #3d444d }
    .s2 { fill: #9198a1 } .s31 { fill: #ff8f87 } .s32 { fill: #56d364 } .s33 { fill: #e3b341 }
    .s35 { fill: #d2a8ff } .s36 { fill: #76e3ea }
  }`

// motion shows each line when it was written, once, unless the reader has turned animations off.
const motion = `
  @media (prefers-reduced-motion: no-preference) { text { animation: show 0.3s both } }
  @keyframes show { from { opacity: 0 } }`

// control finds an escape sequence of a terminal. That of a style ends with m, after its numbers.
func control() *regexp.Regexp { return regexp.MustCompile(`\x1b\[\??([0-9;]*)([A-Za-z])`) }

// SVG returns a picture of what a program wrote to a terminal. The title is for those who cannot see it. Of the escape
// sequences, it shows bold, dim, red, green, yellow, magenta and cyan. A carriage return begins the line again.
// With the times at which the lines were written, the picture is animated.
func SVG(title, terminal string, written ...time.Duration) string {
	var text strings.Builder
	style := style
	if len(written) > 0 {
		style += motion
	}
	columns, rows := 0, 0
	for i, line := range strings.Split(strings.ReplaceAll(terminal, "\r\n", "\n"), "\n") {
		line = line[strings.LastIndex(line, "\r")+1:]
		if spans := spans(line); spans != "" {
			columns = max(columns, utf8.RuneCountInString(control().ReplaceAllString(line, "")))
			rows = i + 1
			delay := ""
			if i < len(written) {
				delay = fmt.Sprintf(` style="animation-delay:%.1fs"`, written[i].Seconds())
			}
			fmt.Fprintf(&text, "  <text x=\"%d\" y=\"%d\"%s xml:space=\"preserve\">%s</text>\n",
				padding, padding+baseline+i*lineHeight, delay, spans)
		}
	}
	width, height := int(float64(columns)*charWidth)+2*padding, rows*lineHeight+2*padding
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
  <title>%s</title>
  <style>%s
  </style>
  <rect x="0.5" y="0.5" width="%d" height="%d" rx="6"/>
%s</svg>
`, width, height, width, height, html.EscapeString(title), style, width-1, height-1, text.String())
}

// spans returns the text of a line, in which each styled part has the class of its style.
func spans(line string) string {
	var out strings.Builder
	class, rest, sequence := "", line, control()
	write := func(part string) {
		switch {
		case part == "":
		case class == "":
			out.WriteString(html.EscapeString(part))
		default:
			fmt.Fprintf(&out, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(part))
		}
	}
	for {
		at := sequence.FindStringSubmatchIndex(rest)
		if at == nil {
			write(rest)
			return out.String()
		}
		write(rest[:at[0]])
		if rest[at[4]:at[5]] == "m" {
			class = classOf(rest[at[2]:at[3]])
		}
		rest = rest[at[1]:]
	}
}

// classOf returns the class of a style, which is empty for none.
func classOf(digits string) string {
	if digits == "" || digits == "0" {
		return ""
	}
	return "s" + strings.ReplaceAll(digits, ";", " s")
}
