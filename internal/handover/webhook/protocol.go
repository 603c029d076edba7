package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

const (
	// Path is where a Service is asked.
	Path = "/hand-over"
	// PortName is the name of the Service's port that is called if the annotation names none.
	PortName = "hand-over"

	// maxBytes is how much of a response is read, and maxMessage how much of a message is reported: what answers is not
	// trusted.
	maxBytes, maxMessage = 4 << 10, 300
)

// Question is the body of a request.
type Question struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"` // of the pod
	Node      string    `json:"node"`
	Deadline  time.Time `json:"deadline"` // of the drain
	Last      bool      `json:"last"`     // the pod is not asked again
	// Leaving are the nodes that are being drained or not Ready, so that no leadership moves to their pods.
	Leaving []string `json:"leaving"`
}

// Reply is the body of a response with the type application/json. All fields are optional. The body of another type is
// the message.
type Reply struct {
	Outcome    handover.Outcome `json:"outcome,omitempty"`    // a closer one than the status says
	Message    string           `json:"message,omitempty"`    // for an Event
	Leader     string           `json:"leader,omitempty"`     // the pod that leads now, if the leadership has moved
	RetryAfter float64          `json:"retryAfter,omitempty"` // seconds; more exact than the header Retry-After
}

// outcomesOf lists what a Reply with a status can say; the first is meant if it says nothing.
func outcomesOf(status int) []handover.Outcome {
	switch status {
	case http.StatusOK:
		return []handover.Outcome{handover.HandedOver, handover.NotLeading, handover.NoReplica, handover.Invalid}
	case http.StatusAccepted:
		return []handover.Outcome{handover.HandingOver, handover.GroupBehind}
	}
	return []handover.Outcome{handover.Refused}
}

// StatusOf returns the status of the response with an answer.
func StatusOf(a handover.Answer) int {
	for _, status := range []int{http.StatusOK, http.StatusAccepted} {
		if slices.Contains(outcomesOf(status), a.Outcome) {
			return status
		}
	}
	return http.StatusConflict
}

// answerOf returns what a response says.
func answerOf(res *http.Response) handover.Answer {
	body, _ := io.ReadAll(res.Body) // One that is slow or broken says nothing more.
	reply := Reply{Message: string(body)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		reply = Reply{}
		_ = json.Unmarshal(body, &reply)
	}
	outcomes := outcomesOf(res.StatusCode)
	answer := handover.Answer{
		Go: res.StatusCode == http.StatusOK, Outcome: outcomes[0],
		Message: lineOf(reply.Message), Leader: lineOf(reply.Leader),
	}
	if slices.Contains(outcomes, reply.Outcome) {
		answer.Outcome = reply.Outcome
	}
	if answer.Outcome == handover.Refused {
		answer.Message = strings.TrimSuffix("the Service answers "+statusText(res.StatusCode)+": "+answer.Message, ": ")
	}
	if res.StatusCode == http.StatusAccepted {
		answer.Again = againOf(reply, res.Header)
	}
	return answer
}

// againOf returns when to ask again; zero leaves that to the caller.
func againOf(reply Reply, header http.Header) time.Duration {
	if reply.RetryAfter > 0 && reply.RetryAfter < 256 {
		return time.Duration(reply.RetryAfter * float64(time.Second))
	}
	seconds, _ := strconv.ParseUint(header.Get("Retry-After"), 10, 8)
	return time.Duration(seconds) * time.Second
}

// statusText returns a status in our own words: the status line is one of the server's.
func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// lineOf returns the beginning of a text in one line, without the final period.
func lineOf(body string) string {
	line := strings.Join(strings.Fields(text.Clean(body)), " ")
	return strings.TrimRight(text.Cut(line, maxMessage), ".")
}
