package main

import (
	"encoding/json"
	"io"
	"time"
)

// recorder writes what it gets as an asciicast, version 2: https://docs.asciinema.org/manual/asciicast/v2/.
type recorder struct {
	out       *json.Encoder
	startedAt time.Time
	err       error
}

func newRecorder(w io.Writer) *recorder {
	const height = 40
	r := &recorder{out: json.NewEncoder(w), startedAt: time.Now()}
	r.out.SetEscapeHTML(false)
	r.err = r.out.Encode(struct {
		Version int    `json:"version"`
		Width   int    `json:"width"`
		Height  int    `json:"height"`
		Title   string `json:"title"`
	}{2, defaultWidth, height, "make demo"})
	return r
}

// Write records an output. It returns the first error of the file.
func (r *recorder) Write(p []byte) (int, error) {
	if r.err == nil {
		r.err = r.out.Encode([]any{time.Since(r.startedAt).Round(time.Millisecond).Seconds(), "o", string(p)})
	}
	return len(p), r.err
}
