package migrate

import "strings"

// Table returns the options of a program as a table in Markdown, for its page. Those that have the same name here are
// in one row, and so are those that are not needed.
func (p Peer) Table() string {
	var b strings.Builder
	b.WriteString("| Theirs (default) | Ours | Remark |\n| --- | --- | --- |\n")
	var same, others []string
	for _, o := range p.options {
		switch names := o.shown(); {
		case o.ours == unneeded:
			others = append(others, names...)
		case o.note == "" && o.ours == "`"+o.names+"`":
			same = append(same, names...)
		default:
			writeRow(&b, names, o.ours, o.note)
		}
	}
	if len(same) > 0 {
		writeRow(&b, same, "the same", "")
	}
	writeRow(&b, others, unneeded, "")
	return b.String()
}

func writeRow(b *strings.Builder, names []string, cells ...string) {
	b.WriteString("| " + strings.Join(names, ", ") + " |")
	for _, cell := range cells {
		b.WriteString(strings.TrimRight(" "+cell, " ") + " |")
	}
	b.WriteByte('\n')
}

// shown returns the names, with short defaults unless they are not needed.
func (o option) shown() (names []string) {
	const longest = 20
	for name, initial := range o.each() {
		name = "`" + name + "`"
		if o.ours != unneeded && initial != "" && len(initial) < longest {
			name += " (" + initial + ")"
		}
		names = append(names, name)
	}
	return names
}

// RunModeTable returns the run modes as a table in Markdown.
func RunModeTable() string {
	var b strings.Builder
	b.WriteString("| `RUN_MODE` | Besides `" + allRunModes + "` | " +
		"In all groups, before the first instance terminates |\n| --- | --- | --- |\n")
	for _, m := range RunModes() {
		flags := ""
		if m.flags != "" {
			flags = "`" + m.flags + "`"
		}
		writeRow(&b, []string{m.Number + ": " + m.theirs}, flags, m.first)
	}
	return b.String()
}
