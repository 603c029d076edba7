// Package account draws what became of requests while nodes were replaced: TestRollout of test/realnodes records it.
package account

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Run is the account of a replacement of all nodes.
type Run struct {
	Title  string    `json:"title"`
	Sent   []int     `json:"sent"`   // requests in each second
	Failed []int     `json:"failed"` // of those
	Left   []float64 `json:"left"`   // when machines ended, in seconds
}

// sum adds numbers up.
func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// In pixels.
const (
	width  = 860
	panelH = 180
	gap    = 8
	left   = 48 // From the edge of a panel to its plot.
	right  = 16
	top    = 36
	bottom = 40
	innerW = width - left - right
	innerH = panelH - top - bottom
	legend = 24
	barMin = 2 // A second in which one request failed is seen, too.
)

// style has the colors of both schemes. Those of text have a contrast of at least 4.5 to the background.
const style = `
  text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #59636e } .t { font-weight: 600; fill: #1f2328 }
  .e { text-anchor: end } .p { fill: #f6f8fa; stroke: #d1d9e0 } .g { stroke: #d1d9e0 }
  .ok { fill: none; stroke: #116329; stroke-width: 2 } .bad { fill: #b3201d } .node { stroke: #7a3fd0; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .t { fill: #e6edf3 } .p { fill: #161b22; stroke: #3d444d } .g { stroke: #3d444d }
    .ok { stroke: #56d364 } .bad { fill: #ff8f87 } .node { stroke: #d2a8ff }
  }`

// SVG returns a picture of the runs, one below the other, with the same scales.
func SVG(title string, runs []Run) string {
	scale := plot{}
	for _, r := range runs {
		scale.seconds, scale.most = max(scale.seconds, len(r.Sent)), max(scale.most, slices.Max(r.Sent))
	}
	scale.most = int(math.Ceil(float64(scale.most)/100)) * 100
	height := len(runs)*(panelH+gap) + legend
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
  <title>%s</title>
  <style>%s
  </style>
`, width, height, width, height, html.EscapeString(title), style)
	for i, r := range runs {
		fmt.Fprintf(&b, "  <g transform=\"translate(0 %d)\">\n", i*(panelH+gap))
		scale.draw(&b, r)
		b.WriteString("  </g>\n")
	}
	drawLegend(&b, height-8)
	return b.String() + "</svg>\n"
}

// plot has the scales of all panels.
type plot struct{ seconds, most int }

func (p plot) x(second float64) float64 { return left + innerW*second/float64(p.seconds) }

func (p plot) height(requests int) float64 { return innerH * float64(requests) / float64(p.most) }

// draw draws a panel: a line of the requests that were answered in each second, bars of those that failed, and a mark
// for each machine that ended.
func (p plot) draw(b *strings.Builder, r Run) {
	const floor = top + innerH
	fmt.Fprintf(b, "    <rect class=\"p\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n", width-1, panelH-1)
	write(b, 12, 22, "t", fmt.Sprintf("%s: %d of %d requests failed", r.Title, sum(r.Failed), sum(r.Sent)))
	for i := range 3 {
		y := top + i*innerH/2
		fmt.Fprintf(b, "    <line class=\"g\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", left, width-right, y, y)
		write(b, left-6, y+4, "e", fmt.Sprint(p.most*(2-i)/2))
	}
	write(b, left, panelH-8, "", "0 s")
	write(b, width-right, panelH-8, "e", fmt.Sprintf("%d s", p.seconds))
	var points []string
	for second, sent := range r.Sent[:max(0, len(r.Sent)-1)] { // The last second was not a whole one.
		answered := sent - r.Failed[second]
		points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(float64(second)+0.5), floor-p.height(answered)))
	}
	fmt.Fprintf(b, "    <polyline class=\"ok\" points=\"%s\"/>\n", strings.Join(points, " "))
	for second, failed := range r.Failed {
		if failed > 0 {
			h := max(barMin, p.height(failed))
			fmt.Fprintf(b, "    <rect class=\"bad\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
				p.x(float64(second)), floor-h, innerW/float64(p.seconds), h)
		}
	}
	for _, at := range r.Left {
		fmt.Fprintf(b, "    <line class=\"node\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", p.x(at), p.x(at), floor+2,
			floor+12)
	}
}

func drawLegend(b *strings.Builder, y int) {
	fmt.Fprintf(b, "  <polyline class=\"ok\" points=\"%d,%d %d,%d\"/>\n", left, y-4, left+16, y-4)
	write(b, left+22, y, "", "requests answered, each second")
	fmt.Fprintf(b, "  <rect class=\"bad\" x=\"%d\" y=\"%d\" width=\"6\" height=\"12\"/>\n", left+250, y-10)
	write(b, left+264, y, "", "requests failed, each second")
	fmt.Fprintf(b, "  <line class=\"node\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", left+480, left+480, y-10, y)
	write(b, left+488, y, "", "a node leaves")
}

func write(b *strings.Builder, x, y int, class, text string) {
	fmt.Fprintf(b, "    <text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(text))
}
