package webhook

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// FuzzResponse checks what is promised of what a Service sends: an outcome that the status permits, and a line that can
// be shown.
func FuzzResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"outcome\":\"not-leading\",\"leader\":\"a\",\"retryAfter\":1}")
	f.Add("HTTP/1.1 202 \x1b[31m\r\nRetry-After: 300\r\nContent-Length: 5\r\n\r\nnot\nyet")
	f.Add("HTTP/1.0 500 \r\n\r\n\u202e")
	f.Fuzz(func(t *testing.T, raw string) {
		res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
		if err != nil {
			return
		}
		defer func() { _ = res.Body.Close() }()
		a := answerOf(res)
		if a.Go != (res.StatusCode == http.StatusOK) || !slices.Contains(outcomesOf(res.StatusCode), a.Outcome) {
			t.Fatalf("%d: %+v", res.StatusCode, a)
		}
		if a.Again < 0 || a.Again >= 256*time.Second {
			t.Fatalf("ask again after %v", a.Again)
		}
		for _, r := range a.Message + a.Leader {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("%+v has %q", a, r)
			}
		}
		if len([]rune(a.Message)) > maxMessage+100 {
			t.Fatalf("a message of %d bytes", len(a.Message))
		}
	})
}
