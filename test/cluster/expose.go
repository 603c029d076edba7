package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Expose creates a Service of a namespace that an agent outside the cluster can reach: no kube-proxy forwards what is
// sent to its cluster IP, but a process can listen there, since the cluster IPs are of the loopback.
// It returns the address to listen at, also if the Service is there already.
func (c *Cluster) Expose(ctx context.Context, namespace, name string) (address string, err error) {
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
