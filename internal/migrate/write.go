package migrate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Text returns the values as YAML, or the command line, with what the user must add in a comment.
func (r *Result) Text() (string, error) {
	var b bytes.Buffer
	for _, one := range r.required {
		fmt.Fprintf(&b, "# Required as well: %s\n", plainText(one))
	}
	if r.command != nil {
		for i, word := range r.command {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(text.ShellWord(word))
		}
		b.WriteByte('\n')
		return b.String(), nil
	}
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(r.tree()); err != nil {
		return "", fmt.Errorf("write the values: %w", err)
	}
	return b.String(), encoder.Close()
}

// tree returns the values as they are in the chart.
func (r *Result) tree() map[string]any {
	root := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(r.values)) {
		at, parts := root, strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			below, is := at[part].(map[string]any)
			if !is {
				below = map[string]any{}
				at[part] = below
			}
			at = below
		}
		at[parts[len(parts)-1]] = r.values[path]
	}
	return root
}
