// Package webhook asks a pod itself, by HTTP, whether it may be evicted.
package webhook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

const (
	// Path is where a pod is asked.
	Path = "/hand-over"
	// PortName is the name of the port that is called if no annotation says otherwise.
	PortName = "hand-over"

	// maxBytes is how much of a response is read: pods are not trusted. maxMessage is how much of a body
	// is reported.
	maxBytes, maxMessage = 4 << 10, 200
	// callTimeout bounds a call. A pod that needs longer answers 202, and is asked again.
	callTimeout = 10 * time.Second
)

// Releaser asks pods. It connects to nothing but the address that the API server gives for a pod, follows no
// redirects, uses no proxy, and sends no credentials.
type Releaser struct{ networks handover.Networks }

// New returns a Releaser that may also call pods in these networks, whatever their addresses are.
func New(networks handover.Networks) *Releaser { return &Releaser{networks} }

// Question is the body of a request.
type Question struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Node      string    `json:"node"`
	Deadline  time.Time `json:"deadline"` // of the drain
	Last      bool      `json:"last"`     // the pod is not asked again
}

// Release sends one POST. The status decides: 200 is yes, 202 not yet, all others are refusals.
func (r *Releaser) Release(ctx context.Context, request handover.Request) (handover.Answer, error) {
	address, mistake := r.addressOf(request.Pod)
	if mistake != nil {
		return handover.Answer{Go: true, Outcome: handover.Invalid, Message: mistake.Error()}, nil
	}
	pod := request.Pod
	body, err := json.Marshal(Question{pod.Namespace, pod.Name, pod.Node, request.Deadline.UTC(), request.Last})
	if err != nil {
		return handover.Answer{}, fmt.Errorf("encode the question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := post(ctx, address, body)
	if err != nil {
		return handover.Answer{}, fmt.Errorf("ask the pod: %w", err)
	}
	return answer, nil
}

// post sends a request, and reads the response, on a connection of its own. An http.Client would follow what a pod
// sends before it is asked, and log it.
func post(ctx context.Context, address string, body []byte) (handover.Answer, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return handover.Answer{}, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	target := url.URL{Scheme: "http", Host: address, Path: Path}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return handover.Answer{}, err
	}
	request.Close = true
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "node-drainer")
	if err := request.Write(conn); err != nil {
		return handover.Answer{}, err
	}
	response, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxBytes)), request)
	if err != nil {
		return handover.Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	return answerOf(response), nil
}

// addressOf returns where the pod is asked. The error says what to write.
func (r *Releaser) addressOf(pod handover.Pod) (hostPort string, err error) {
	port, err := pod.PortOf(PortName)
	if err != nil {
		return "", err
	}
	if port == 0 {
		return "", fmt.Errorf("the pod has no port named %s, and no annotation %s",
			PortName, handover.PortAnnotation)
	}
	address, err := r.networks.AddressOf(pod)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(address.String(), strconv.Itoa(int(port))), nil
}

// answerOf returns what the response says.
func answerOf(res *http.Response) handover.Answer {
	text := messageOf(res.Body)
	switch res.StatusCode {
	case http.StatusOK:
		return handover.Answer{Go: true, Outcome: handover.HandedOver, Message: text}
	case http.StatusAccepted:
		seconds, _ := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 8) // zero is for the caller
		return handover.Answer{
			Outcome: handover.HandingOver, Message: text, Again: time.Duration(seconds) * time.Second,
		}
	}
	message := "the pod answers " + res.Status
	if text != "" {
		message += ": " + text
	}
	return handover.Answer{Outcome: handover.Refused, Message: message}
}

// messageOf returns the beginning of the body in one line. A body that is slow or broken says nothing more.
func messageOf(body io.Reader) string {
	text, _ := io.ReadAll(body)
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	line = strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, line)
	if runes := []rune(line); len(runes) > maxMessage {
		line = string(runes[:maxMessage])
	}
	return strings.TrimRight(line, ".")
}
