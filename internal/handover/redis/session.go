package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
)

// session holds the connections of one call, and the Secret that it has read.
type session struct {
	options Options

	mu      sync.Mutex
	servers map[serverKey]*server
	secrets map[string]map[string][]byte // by namespace and name
}

// serverKey is a pod and the address of its server. The address alone is not enough: a pod that has failed may still
// show the one that another pod has now.
type serverKey struct{ namespace, pod, address string }

func newSession(o Options) *session {
	return &session{options: o, servers: map[serverKey]*server{}, secrets: map[string]map[string][]byte{}}
}

// close closes all connections.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.servers {
		server.close()
	}
}

// redis returns a connection to the Redis of a pod, logged in.
func (s *session) redis(ctx context.Context, pod workload.Pod) (*server, error) {
	port, err := redisPort(pod)
	if err != nil {
		return nil, err
	}
	return s.server(ctx, pod, port, pod, "username", "password")
}

// sentinel returns a connection to the sentinel of a pod, logged in as the pod that is to be released says.
func (s *session) sentinel(ctx context.Context, pod, released workload.Pod) (*server, error) {
	secret, err := s.secret(ctx, released)
	if err != nil {
		return nil, err
	}
	username, password := "username", "password"
	if _, own := secret["sentinel-password"]; own {
		username, password = "sentinel-username", "sentinel-password"
	}
	port, _ := sentinelPort(pod)
	return s.server(ctx, pod, port, released, username, password)
}

// server returns a connection to a port of a pod. The Secret and the server name are those of the pod as; the
// arguments username and password are keys of the Secret.
func (s *session) server(
	ctx context.Context, pod workload.Pod, port int32, as workload.Pod, username, password string,
) (*server, error) {
	address, err := s.address(pod, port)
	if err != nil {
		return nil, err
	}
	secret, err := s.secret(ctx, as)
	if err != nil {
		return nil, err
	}
	if len(secret[password]) > 0 && secret["ca.crt"] == nil && !s.options.PasswordsInClear {
		return nil, fmt.Errorf("refuse to send a password to %s without TLS: the Secret has no ca.crt "+
			"(PASSWORDS_IN_CLEAR=true permits it)", pod.Name)
	}
	key := serverKey{pod.Namespace, pod.Name, address}
	s.mu.Lock()
	known := s.servers[key]
	if known == nil {
		known = &server{pod: pod.Name, dial: func(ctx context.Context) (net.Conn, error) {
			return s.dial(ctx, address, secret, as.Annotations[workload.ServerNameAnnotation])
		}, username: string(secret[username]), password: string(secret[password])}
		s.servers[key] = known
	}
	s.mu.Unlock()
	return known, known.connect(ctx)
}

// address returns where a port of a pod is, if it may be connected to.
func (s *session) address(pod workload.Pod, port int32) (string, error) {
	ip, err := s.options.Networks.AddressOf(pod)
	if err != nil {
		return "", fmt.Errorf("refuse to connect to %s: %w", pod.Name, err)
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(int(port))), nil
}

// secret returns the Secret that a pod names; nil if it names none.
func (s *session) secret(ctx context.Context, pod workload.Pod) (map[string][]byte, error) {
	name := pod.Annotations[workload.SecretAnnotation]
	if name == "" {
		return nil, nil
	}
	key := pod.Namespace + "/" + name
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.secrets[key]; ok {
		return known, nil
	}
	secret, err := s.options.Secret(ctx, pod.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("read the Secret %s (is it listed in secrets of the chart?): %w", key, err)
	}
	s.secrets[key] = secret
	return secret, nil
}

// dial connects to an address, with TLS if the Secret has a ca.crt.
func (s *session) dial(
	ctx context.Context, address string, secret map[string][]byte, serverName string,
) (net.Conn, error) {
	conn, err := s.options.Dial(ctx, "tcp", address)
	if err != nil || secret["ca.crt"] == nil {
		return conn, err
	}
	config, err := tlsConfig(secret, serverName)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// tlsConfig trusts the ca.crt of a Secret, and presents its tls.crt if it has one: Redis asks for one by default.
func tlsConfig(secret map[string][]byte, serverName string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: serverName}
	if !config.RootCAs.AppendCertsFromPEM(secret["ca.crt"]) {
		return nil, errors.New("ca.crt of the Secret has no certificate")
	}
	if secret["tls.crt"] == nil {
		return config, nil
	}
	own, err := tls.X509KeyPair(secret["tls.crt"], secret["tls.key"])
	if err != nil {
		return nil, errors.New("tls.crt and tls.key of the Secret do not fit") // Its cause may quote the key.
	}
	config.Certificates = []tls.Certificate{own}
	return config, nil
}

// redisPort returns the port of Redis in a pod: the annotated one, the one with a usual name, or 6379.
func redisPort(pod workload.Pod) (int32, error) {
	port, err := pod.PortOf("redis", "valkey", "tcp-redis")
	switch {
	case err != nil:
		return 0, invalid("%w", err)
	case port == 0:
		return 6379, nil
	}
	return port, nil
}

// sentinelPort returns the port of the sentinel in a pod, and whether the pod names one.
func sentinelPort(pod workload.Pod) (int32, bool) {
	for _, port := range pod.Ports {
		switch port.Name {
		case "sentinel", "redis-sentinel", "tcp-sentinel", "valkey-sentinel":
			return port.Number, true
		}
	}
	return 26379, false
}

// until returns the earlier of the deadline of ctx and of now plus d.
func until(ctx context.Context, d time.Duration) time.Time {
	at := time.Now().Add(d)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(at) {
		return deadline
	}
	return at
}
