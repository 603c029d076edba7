package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/picture"
)

// TestPictureOfNode: the picture of a node that is being drained shows what kubectl describe node printed of it.
func TestPictureOfNode(t *testing.T) {
	description, err := os.ReadFile("node.txt")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "node.svg", picture.SVG("The output of kubectl describe node, shortened", shorten(string(description))))
}

// shorten returns the parts that concern the drain. It replaces others by "...", cuts long values, leaves out the times
// of conditions, and continues long messages on further lines.
func shorten(description string) string {
	const command, omitted = "\x1b[1m$ kubectl describe node %s\x1b[0m", "\x1b[2m...\x1b[0m"
	var out []string
	add := func(lines ...string) {
		if len(lines) > 0 {
			out = append(out, lines...)
		} else if out[len(out)-1] != omitted {
			out = append(out, omitted)
		}
	}
	for _, section := range sections(description) {
		switch heading, _, _ := strings.Cut(section[0], ":"); heading {
		case "Name":
			out = append(out, strings.ReplaceAll(command, "%s", strings.Fields(section[0])[1]), section[0])
		case "Taints", "Unschedulable":
			add(section...)
		case "Labels", "Annotations":
			add(values(section)...)
		case "Conditions":
			add(conditions(section)...)
		case "Events":
			add(wrap(section)...)
		default:
			add()
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// sections returns the lines of each section, of which the first is not indented.
func sections(description string) (all [][]string) {
	for line := range strings.SplitSeq(strings.TrimSpace(description), "\n") {
		if !strings.HasPrefix(line, " ") {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], line)
	}
	return all
}

// values returns the labels or annotations that the agent sets.
func values(section []string) (kept []string) {
	const width = 20 // Of the heading.
	heading := section[0][:width]
	for _, line := range section {
		value := line[width:]
		if strings.Contains(value, "node-drainer") || strings.Contains(value, "exclude-from") || strings.Contains(value, "{") {
			kept = append(kept, cut(heading+value))
			heading = strings.Repeat(" ", width)
		}
	}
	return kept
}

// conditions returns those of the agent and of the kubelet's readiness, without their times.
func conditions(section []string) (kept []string) {
	from, to := strings.Index(section[1], "LastHeartbeatTime"), strings.Index(section[1], "Reason")
	for i, line := range section[1:] {
		if name := strings.Fields(line)[0]; i < 2 || name == "Ready" || strings.HasPrefix(name, "node-drainer.io/") {
			kept = append(kept, line[:from]+line[to:])
		}
	}
	return append([]string{section[0]}, kept...)
}

const widest = 120 // Columns of the picture.

func cut(line string) string {
	if len(line) > widest {
		line = strings.TrimSuffix(line[:widest-3], "...") + "..."
	}
	return line
}

// wrap continues messages that are too long below their beginning.
func wrap(section []string) (lines []string) {
	indent := strings.Repeat(" ", strings.Index(section[1], "Message"))
	for rest := slices.Clone(section); len(rest) > 0; {
		line := rest[0]
		if len(line) <= widest {
			lines, rest = append(lines, line), rest[1:]
			continue
		}
		end := strings.LastIndex(line[:widest], " ")
		lines, rest[0] = append(lines, line[:end]), indent+line[end+1:]
	}
	return lines
}
