// Package record is how the processes in containers of real nodes record what happens to them.
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Where folders of the host are in each container.
const (
	Folder = "/records"
	Disks  = "/disks" // has a folder for each node
)

// Reconnect is the last line of a stream that its server ends.
const Reconnect = "reconnect"

// What is something that happens to a process.
type What string

// What is recorded.
const (
	Started  What = "started"
	Ready    What = "ready"
	Signal   What = "signal"
	Drained  What = "drained" // It has no requests any more.
	Exited   What = "exited"  // It was not killed.
	Alive    What = "alive"   // It still runs after a signal.
	Failed   What = "failed"  // Something that it needs did not answer.
	JobBegun What = "job begun"
	JobDone  What = "job done"
)

// Line is one line of a record.
type Line struct {
	At     time.Time `json:"at"`
	Pod    string    `json:"pod"`
	Node   string    `json:"node"`
	What   What      `json:"what"`
	Detail string    `json:"detail,omitempty"`
}

// Process is the record of a process.
type Process []Line

// Find returns the first line of a kind.
func (p Process) Find(what What) (Line, bool) {
	i := slices.IndexFunc(p, func(l Line) bool { return l.What == what })
	if i < 0 {
		return Line{}, false
	}
	return p[i], true
}

// All returns all lines of a kind.
func (p Process) All(what What) (found []Line) {
	for _, l := range p {
		if l.What == what {
			found = append(found, l)
		}
	}
	return found
}

// ReadNamespace returns the records in a folder of the processes of a namespace. The last line of a process that was
// killed may be cut: it is left out.
func ReadNamespace(dir, namespace string) (all []Process, err error) {
	files, err := filepath.Glob(filepath.Join(dir, namespace+"_*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		var p Process
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			var l Line
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				p = append(p, l)
			}
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
