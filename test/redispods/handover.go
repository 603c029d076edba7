package redispods

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// Expose creates a Service of a namespace that an agent outside the cluster can reach: no kube-proxy forwards what is
// sent to its cluster IP, but a process can listen there, since the cluster IPs of package cluster are of the loopback.
// It returns the address to listen at, also if the Service is there already.
func Expose(ctx context.Context, c *cluster.Cluster, namespace, name string) (address string, err error) {
	services := c.Client().CoreV1().Services(namespace)
	if known, err := services.Get(ctx, name, metav1.GetOptions{}); err == nil {
		return net.JoinHostPort(known.Spec.ClusterIP, strconv.Itoa(int(known.Spec.Ports[0].Port))), nil
	}
	for range 10 { // Another Service may have the cluster IP.
		ip := fmt.Sprintf("127.%d.%d.%d", 16+rand.IntN(16), rand.IntN(250), 2+rand.IntN(250))
		var listener net.Listener
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", ip+":0"); err != nil {
			return "", err
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if err = listener.Close(); err != nil {
			return "", err
		}
		_, err = services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "hand-over", Port: int32(port)}}},
		}, metav1.CreateOptions{})
		if err == nil {
			return net.JoinHostPort(ip, strconv.Itoa(port)), nil
		}
	}
	return "", err
}

// Handover is the program that has the pods of a namespace hand over.
type Handover struct {
	Program    string // the path of the binary
	Kubeconfig string
	Namespace  string
	Address    string   // that Expose has returned
	Env        []string // more settings
}

// Command returns the command that starts the program. It has started when it logs "handover started".
func (h Handover) Command() *exec.Cmd {
	cmd := exec.Command(h.Program)
	cmd.Env = append([]string{
		"GORACE=halt_on_error=1", "KUBECONFIG=" + h.Kubeconfig, "POD_NAMESPACE=" + h.Namespace, "LISTEN_ADDRESS=" + h.Address,
		"NETWORKS=127.0.0.0/8", "PASSWORDS_IN_CLEAR=true", "LOG_LEVEL=debug",
	}, h.Env...)
	return cmd
}
