package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/node-drainer/node-drainer/internal/handover/redis"
	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// fakes are pods that answer as a test says. Their IPs are those of pods; nothing is sent over a network.
type fakes struct {
	secret  map[string][]byte
	inClear bool                           // passwords may be sent without TLS
	servers map[string]func(conn net.Conn) // by address; an absent one refuses connections

	all      sync.WaitGroup
	mu       sync.Mutex
	dialled  map[string]bool
	commands []string
}

func newFakes() *fakes {
	return &fakes{servers: map[string]func(net.Conn){}, dialled: map[string]bool{}}
}

func (f *fakes) releaser() *redis.Releaser {
	return redis.New(redis.Options{
		Secret: func(context.Context, string, string) (map[string][]byte, error) {
			if f.secret == nil {
				return nil, errors.New("secrets is forbidden")
			}
			return f.secret, nil
		},
		Dial: f.dial, PasswordsInClear: f.inClear,
	})
}

func (f *fakes) dial(_ context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialled[address] = true
	serve := f.servers[address]
	if serve == nil {
		return nil, errors.New("connect: connection refused")
	}
	client, server := net.Pipe()
	f.all.Go(func() {
		defer server.Close()
		serve(server)
	})
	return client, nil
}

// sent returns the commands that were sent, without those that only ask.
func (f *fakes) sent() (changes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, command := range f.commands {
		if !strings.HasPrefix(command, "INFO") && !strings.HasPrefix(command, "PUBSUB") {
			changes = append(changes, command)
		}
	}
	return changes
}

// answering serves a connection with the replies of a function. One without a type is a bulk string.
func (f *fakes) answering(reply func(command string) string) func(net.Conn) {
	return func(conn net.Conn) {
		from := resp.NewReader(conn)
		for {
			value, err := from.Read()
			if err != nil {
				return
			}
			var words []string
			for _, element := range value.Elements {
				words = append(words, element.Text)
			}
			command := strings.Join(words, " ")
			f.mu.Lock()
			f.commands = append(f.commands, command)
			f.mu.Unlock()
			text := reply(command)
			if text == "" || !strings.ContainsRune("+-:*$", rune(text[0])) {
				text = fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
			}
			if _, err := conn.Write([]byte(text)); err != nil {
				return
			}
		}
	}
}

// plain answers as a Redis with plain replication whose INFO replication is given.
func plain(replication func() string) func(string) string {
	return func(command string) string {
		switch {
		case command == "INFO server":
			return "# Server\r\nredis_mode:standalone\r\nredis_version:7.0.15\r\n"
		case command == "INFO replication":
			return strings.ReplaceAll(replication(), "\n", "\r\n")
		case strings.HasPrefix(command, "PUBSUB"):
			return "*2\r\n$18\r\n__sentinel__:hello\r\n:0\r\n"
		}
		return "+OK\r\n"
	}
}

func text(s string) func() string { return func() string { return s } }

// pod returns the pod of a member of a StatefulSet.
func pod(name, ip string) workload.Pod {
	return workload.Pod{
		Namespace: "shop", Name: name, UID: name, IP: ip, Stays: true, Ready: true,
		Controller: "StatefulSet/redis", ControllerUID: "redis",
		Annotations: map[string]string{handover.KindAnnotation: handover.HTTPKind},
	}
}

// release asks once, and expects that all connections are closed then.
func (f *fakes) release(t *testing.T, request workload.Request) handover.Answer {
	t.Helper()
	answer, err := f.releaser().Release(t.Context(), request)
	f.all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// loopback is allowed where servers are processes.
func loopback() workload.Networks { return workload.Networks{netip.MustParsePrefix("127.0.0.0/8")} }
