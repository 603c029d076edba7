// Package webhook asks a Service by HTTP whether a pod may be evicted. Its protocol is in protocol.go.
package webhook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// callTimeout bounds a call. A Service that needs longer answers 202, and is asked again.
const callTimeout = 25 * time.Second

// Releaser asks the Service that a pod names, in the namespace of the pod. It connects to nothing but the cluster IP
// that the API server has given the Service, follows no redirects, uses no proxy, and sends no credentials. It needs to
// get services.
type Releaser struct{ client kubernetes.Interface }

// New returns a Releaser.
func New(client kubernetes.Interface) *Releaser { return &Releaser{client} }

// Release sends one POST. The status decides: 200 is yes, 202 not yet, all others are refusals.
func (r *Releaser) Release(ctx context.Context, request handover.Request) (handover.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pod := request.Pod
	address, mistake, err := r.addressOf(ctx, pod)
	switch {
	case err != nil:
		return handover.Answer{}, err
	case mistake != "":
		return handover.Answer{Go: true, Outcome: handover.Invalid, Message: mistake}, nil
	}
	body, err := json.Marshal(Question{
		pod.Namespace, pod.Name, pod.UID, pod.Node, request.Deadline.UTC(), request.Last,
		append([]string{}, request.Leaving...), // an empty list is not null
	})
	if err != nil {
		return handover.Answer{}, fmt.Errorf("encode the question: %w", err)
	}
	answer, err := post(ctx, address, body)
	if err != nil {
		return handover.Answer{}, fmt.Errorf("ask the Service %s: %w", pod.Annotations[handover.ServiceAnnotation], err)
	}
	return answer, nil
}

// addressOf returns where a pod's Service is asked, or the mistake of its annotation. The cluster IP comes from the API
// server: unlike the address of a pod, no kubelet reports it, and unlike an external name, no user chooses it.
func (r *Releaser) addressOf(ctx context.Context, pod handover.Pod) (hostPort, mistake string, err error) {
	name, port, _ := strings.Cut(pod.Annotations[handover.ServiceAnnotation], ":")
	if name == "" {
		return "", "the pod has no annotation " + handover.ServiceAnnotation + ", which names the Service to ask", nil
	}
	service, err := r.client.CoreV1().Services(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", "", fmt.Errorf("the namespace %s has no Service %s, which %s names", pod.Namespace, name,
			handover.ServiceAnnotation)
	case err != nil:
		return "", "", fmt.Errorf("get the Service %s: %w", name, err)
	case service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone ||
		service.Spec.Type == corev1.ServiceTypeExternalName:
		return "", fmt.Sprintf("the Service %s has no cluster IP: it must not be headless, nor of the type ExternalName",
			name), nil
	}
	number := portOf(service, port)
	if number == 0 {
		return "", fmt.Sprintf("the Service %s has no port %s", name, port), nil
	}
	return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(number))), "", nil
}

// portOf returns the port of a Service with a name or a number; without one, the port that is called PortName, or the
// first. It is zero if there is none.
func portOf(service *corev1.Service, port string) int32 {
	for _, p := range service.Spec.Ports {
		if port != "" && (p.Name == port || strconv.Itoa(int(p.Port)) == port) || port == "" && p.Name == PortName {
			return p.Port
		}
	}
	if port == "" && len(service.Spec.Ports) > 0 {
		return service.Spec.Ports[0].Port
	}
	return 0
}

// post sends a request, and reads the response, on a connection of its own. An http.Client would follow what a server
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
		return handover.Answer{}, readError(err)
	}
	defer func() { _ = response.Body.Close() }()
	return answerOf(response), nil
}

// readError returns an error without the words of the server, which those of net/http quote.
func readError(err error) error {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return errors.New("the response is no valid HTTP")
}
