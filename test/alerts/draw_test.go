package alerts

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// In pixels.
const (
	columns   = 2
	chartW    = 540
	chartH    = 190
	gap       = 8
	left      = 48 // From the edge of a panel to its values.
	right     = 16
	top       = 40
	bottom    = 48
	innerW    = chartW - left - right
	innerH    = chartH - top - bottom
	legendGap = 130
)

const chartStyle = `
  text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #59636e } .t { font-weight: 600; fill: #1f2328 }
  .v { font-size: 26px; fill: #116329 } .e { text-anchor: end }
  rect { fill: #f6f8fa; stroke: #d1d9e0 } .g { stroke: #d1d9e0 } polyline { fill: none; stroke-width: 2 }
  .c0 { stroke: #116329 } .c1 { stroke: #7d4e00 } .c2 { stroke: #136a70 } .c3 { stroke: #7a3fd0 } .c4 { stroke: #b3201d }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .t { fill: #e6edf3 } .v { fill: #56d364 } rect { fill: #161b22; stroke: #3d444d }
    .g { stroke: #3d444d } .c0 { stroke: #56d364 } .c1 { stroke: #e3b341 } .c2 { stroke: #76e3ea }
    .c3 { stroke: #d2a8ff } .c4 { stroke: #ff8f87 }
  }`

// draw returns an SVG of all charts.
func draw(charts []chart) string {
	rows := (len(charts) + columns - 1) / columns
	width, height := columns*(chartW+gap)-gap+1, rows*(chartH+gap)-gap+1
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
  <title>Panels of the dashboard during a drain</title>
  <style>%s
  </style>
`, width, height, width, height, chartStyle)
	for i, c := range charts {
		fmt.Fprintf(&b, "  <g transform=\"translate(%d.5 %d.5)\">\n", i%columns*(chartW+gap), i/columns*(chartH+gap))
		fmt.Fprintf(&b, "    <rect width=\"%d\" height=\"%d\" rx=\"4\"/>\n", chartW, chartH)
		write(&b, 12, 22, "t", c.Title)
		c.axes(&b)
		c.plot(&b)
		b.WriteString("  </g>\n")
	}
	return b.String() + "</svg>\n"
}

func write(b *strings.Builder, x, y int, class, text string) {
	fmt.Fprintf(b, "    <text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(text))
}

// axes draws three values, and the first and the last time.
func (c chart) axes(b *strings.Builder) {
	for i, share := range []float64{1, 0.5, 0} {
		y := top + i*innerH/2
		fmt.Fprintf(b, "    <line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" class=\"g\"/>\n", left, chartW-right, y, y)
		write(b, left-6, y+4, "e", c.format(share*c.highest()))
	}
	write(b, left, chartH-bottom+16, "", "0 s")
	write(b, chartW-right, chartH-bottom+16, "e", fmt.Sprintf("%d s", c.seconds))
}

// plot draws the lines and their legend. A panel of one value shows the last one in large digits.
func (c chart) plot(b *strings.Builder) {
	for i, l := range c.lines {
		class := fmt.Sprintf("c%d", i%5)
		var points []string
		flush := func() {
			if len(points) > 0 {
				fmt.Fprintf(b, "    <polyline class=\"%s\" points=\"%s\"/>\n", class, strings.Join(points, " "))
			}
			points = nil
		}
		for _, p := range l.points {
			if math.IsNaN(p.F) { // A gap in the line.
				flush()
				continue
			}
			x := left + innerW*float64(p.T)/1000/float64(c.seconds)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, top+innerH*(1-p.F/c.highest())))
		}
		flush()
		x := left + i*legendGap
		fmt.Fprintf(b, "    <polyline class=\"%s\" points=\"%d,%d %d,%d\"/>\n", class, x, chartH-16, x+16, chartH-16)
		write(b, x+22, chartH-12, "", l.legend)
		if c.Type == "stat" {
			write(b, chartW-right, 28, "v e", c.format(l.points[len(l.points)-1].F))
		}
	}
}

// highest returns the value at the upper end, at least 1. Half of it is a round number too.
func (c chart) highest() float64 {
	most := 1.0
	for _, l := range c.lines {
		for _, p := range l.points {
			if p.F > most {
				most = p.F
			}
		}
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, factor := range []float64{1, 1.2, 1.6, 2, 3, 4, 6, 8} {
		if most <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}

func (c chart) format(v float64) string {
	text := fmt.Sprintf("%.3g", v)
	if c.FieldConfig.Defaults.Unit == "s" {
		text += " s"
	}
	return text
}
