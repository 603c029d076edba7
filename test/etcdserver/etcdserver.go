// Package etcdserver runs clusters of real etcd members: processes of etcd, each at its own address 127.a.b.c, as pods
// have their own, with a folder as its volume. A member keeps its address, in place of the DNS name that a pod of a
// StatefulSet keeps. It does not use package testing: what fails returns an error.
package etcdserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// poll is the time between two looks at a member that is not ready yet.
const poll = 20 * time.Millisecond

// Cluster is members that replicate the same data.
type Cluster struct {
	Members []*Member
	dir     string
}

// Member is one member.
type Member struct {
	Name, IP string
	ID       string // for etcd

	program string
	args    []string
	process *harness.Process // nil while it is stopped
}

// Start starts a cluster, and returns when its members agree on a leader. They elect another one after five seconds: a
// machine that is busy does not make them do so.
func Start(ctx context.Context, members int) (*Cluster, error) {
	programs, err := cluster.Binaries(ctx, nil)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if c.dir, err = os.MkdirTemp("", "etcdserver-"); err != nil {
		return nil, err
	}
	network := fmt.Sprintf("127.%d.%d", 32+rand.IntN(200), rand.IntN(250))
	var all []string
	for i := range members {
		m := &Member{Name: fmt.Sprintf("etcd-%d", i), IP: fmt.Sprintf("%s.%d", network, i+1)}
		all = append(all, fmt.Sprintf("%s=http://%s:2380", m.Name, m.IP))
		c.Members = append(c.Members, m)
	}
	for _, m := range c.Members {
		client, peer := "http://"+m.IP+":2379", "http://"+m.IP+":2380"
		m.program, m.args = filepath.Join(programs, "etcd"), []string{
			"--name=" + m.Name, "--data-dir=" + filepath.Join(c.dir, m.Name), "--unsafe-no-fsync",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + strings.Join(all, ","), "--heartbeat-interval=500", "--election-timeout=5000",
		}
		if err := m.start(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, m := range c.Members {
		s, err := m.waitReady(ctx)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		m.ID = s.Header.ID
	}
	return c, nil
}

// Close kills all members, since the last one would wait for somebody to lead, and removes their folders.
func (c *Cluster) Close() error {
	for _, m := range c.Members {
		if m.process != nil {
			m.process.Kill()
		}
	}
	return os.RemoveAll(c.dir)
}

// Leader waits until a member leads, and returns it.
func (c *Cluster) Leader(ctx context.Context) (leader *Member, err error) {
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		for _, m := range c.Members {
			if s, err := m.Status(ctx); err == nil && s.Leader == m.ID {
				leader = m
			}
		}
		return leader != nil, nil
	})
	return leader, err
}

// Start starts a member, and returns when it knows a leader.
func (m *Member) Start(ctx context.Context) error {
	if err := m.start(); err != nil {
		return err
	}
	_, err := m.waitReady(ctx)
	return err
}

func (m *Member) start() error {
	process := harness.NewProcess(exec.Command(m.program, m.args...))
	if err := process.Start(); err != nil {
		return err
	}
	m.process = process
	return nil
}

func (m *Member) waitReady(ctx context.Context) (s Status, err error) {
	ctx, cancel := m.process.WhileRunning(ctx)
	defer cancel()
	return s, wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		s, err = m.Status(ctx)
		return err == nil && s.Leader != "", nil
	})
}

// Stop stops a member as a kubelet does, and returns when it has exited.
func (m *Member) Stop() error {
	process := m.process
	if m.process = nil; process == nil {
		return nil
	}
	process.Signal(syscall.SIGCONT)
	return process.Terminate()
}

// Freeze stops a member without its knowledge: it keeps its connections and does not answer.
func (m *Member) Freeze() { m.process.Signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (m *Member) Thaw() { m.process.Signal(syscall.SIGCONT) }

// Status is what a member says of itself.
type Status struct {
	Header struct {
		ID string `json:"member_id"`
	}
	Leader string // an ID; empty if it knows none
	Term   string `json:"raftTerm"` // Each election begins another one.
}

// Status asks a member.
func (m *Member) Status(ctx context.Context) (s Status, err error) {
	return s, m.Do(ctx, "maintenance/status", struct{}{}, &s)
}

// Do calls a method of the API.
func (m *Member) Do(ctx context.Context, method string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	address := "http://" + m.IP + ":2379/v3/" + method
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s of %s: %s: %s", method, m.Name, response.Status, text)
	}
	return json.NewDecoder(response.Body).Decode(out)
}

// clientTimeout is that of an application: a write that is under way while the leadership moves may get no answer.
const clientTimeout = time.Second

// Client writes and reads at one member, and at the next one when that fails.
type Client struct {
	cluster *Cluster
	at      int
}

// Client returns a client of the cluster.
func (c *Cluster) Client() *Client { return &Client{cluster: c} }

func (c *Client) do(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	err := c.cluster.Members[c.at].Do(ctx, method, in, out)
	if err != nil {
		c.at = (c.at + 1) % len(c.cluster.Members)
	}
	return err
}

// Set writes a key once.
func (c *Client) Set(ctx context.Context, key string) error {
	return c.do(ctx, "kv/put", map[string][]byte{"key": []byte(key)}, &struct{}{})
}

// Count returns how many of the keys are stored.
func (c *Client) Count(ctx context.Context, keys []string) (n int, err error) {
	var stored struct{ KVs []struct{ Key []byte } }
	all := map[string]any{"key": []byte{0}, "range_end": []byte{0}, "keys_only": true}
	if err := c.do(ctx, "kv/range", all, &stored); err != nil {
		return 0, err
	}
	there := map[string]bool{}
	for _, kv := range stored.KVs {
		there[string(kv.Key)] = true
	}
	for _, key := range keys {
		if there[key] {
			n++
		}
	}
	return n, nil
}

// Close does nothing: each call has a connection that others use, too.
func (c *Client) Close() error { return nil }
