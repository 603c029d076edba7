package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// Object returns the JSON schema of an object that has these properties and no others.
func Object(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

// Duration is the pattern of durations, in units that people use.
const Duration = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`

// HoldDefinition compares a definition in values.schema.json, which is a part that is generated, with what it
// should be; or writes it there.
func HoldDefinition(name string, definition any, write bool) error {
	chart, err := Path()
	if err != nil {
		return err
	}
	file := filepath.Join(chart, "values.schema.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return err
	}
	definitions, ok := schema["definitions"].(map[string]any)
	if !ok {
		return errors.New("values.schema.json has no definitions")
	}
	definitions[name] = definition
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		return err
	}
	if write {
		return os.WriteFile(file, want.Bytes(), 0o600) // The file is there, and keeps its mode.
	}
	if !bytes.Equal(text, want.Bytes()) {
		return errors.New("values.schema.json is stale: run make generate")
	}
	return nil
}
