//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// TestHostilePods: pods that send what no Redis sends, or name addresses that are none of theirs, take no memory of the
// program that has them hand over, delay no drain, and bring it to connect to nobody else.
func TestHostilePods(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	other := f.foreign()
	h := &hostility{
		fixture: f, program: f.startHandover(), agent: f.startAgent("DRAIN_TIMEOUT=40s", "DRAIN_HAND_OVER_TIMEOUT=4s"),
	}
	var err error
	h.program.program.Program, err = harness.Build(f.ctx, t.TempDir(), harness.Handover, harness.Options{})
	f.must(err)
	h.program.restart() // without the race detector, which takes memory
	honest := map[string]func(net.Conn){}
	for i := range 12 {
		honest[fmt.Sprintf("honest-%d", i)] = replies{"INFO replication": "role:master\r\n"}.serve
	}
	h.drain(honest)
	before := h.program.memory("VmHWM")
	h.drain(hostile(other.ip, other.port))
	after := h.program.memory("VmHWM")
	t.Logf("most memory: %d KiB, and %d KiB with hostile pods", before, after)
	if after-before > 5<<10 {
		t.Errorf("hostile pods took %d KiB, want 5 MiB at most", after-before)
	}
	if n := other.connections.Load(); n > 0 {
		t.Errorf("the program has connected %d times to an address that is no pod", n)
	}
	h.program.assertHealthy()
}

// hostility drains nodes with pods that a test serves.
type hostility struct {
	*fixture
	program *handoverProgram
	agent   *agentProcess
}

// drain drains a node with a pod for each server, all of one namespace and of one hand-over, in time.
func (h *hostility) drain(servers map[string]func(net.Conn)) {
	h.t.Helper()
	node, instance := h.node()
	addresses := map[string]string{}
	for name, serve := range servers {
		ip, port := h.serveConnections(serve)
		pods := redisMember(workload.PortAnnotation, port)
		pods.Node, pods.Pool, pods.GracePeriod, addresses[name] = node, h.namespace, time.Second, ip
		switch name {
		case "watched":
			pods.Annotations[workload.SentinelsAnnotation] = cluster.Selector("sentinel")
		case "sentinel": // of no other pod
			pods.Annotations[workload.MasterAnnotation] = "m"
			pods.Change = namePort(name, port)
		}
		h.must(h.cluster.Pod(h.ctx, h.namespace, name, pods))
	}
	for name, ip := range addresses {
		h.waitPodsReady(name, 1)
		h.setAddress(name, ip)
	}
	h.terminate(instance)
	action := h.waitHandled(instance)
	if d := action.ClosedAt.Sub(action.StartedAt); d > 40*time.Second {
		h.t.Errorf("the hook was held for %s, want 40 s at most", d)
	}
	for name := range servers {
		h.agent.waitLog("hand-over ended", "pod", h.namespace+"/"+name)
	}
}

// namePort gives the container a port.
func namePort(name, port string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		number, _ := strconv.ParseInt(port, 10, 32)
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: name, ContainerPort: int32(number)}}
	}
}

// memory returns a figure of the status of the process, in KiB.
func (p *agentProcess) memory(name string) int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	found := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		p.t.Fatalf("no %s in\n%s", name, status)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// serveConnections serves each connection to an address that nobody else uses, until the test ends.
func (f *fixture) serveConnections(serve func(net.Conn)) (ip, port string) {
	f.t.Helper()
	listener, ip, port := f.listen()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	f.t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return ip, port
}

// foreign is a server at the address of no pod.
type foreign struct {
	ip, port    string
	connections atomic.Int32
}

func (f *fixture) foreign() *foreign {
	f.t.Helper()
	var one foreign
	one.ip, one.port = f.serveConnections(func(net.Conn) { one.connections.Add(1) })
	return &one
}

// replies are what a server replies to commands, by their names. A text without a type is a bulk string.
type replies map[string]string

func (r replies) serve(conn net.Conn) {
	from := resp.NewReader(conn)
	for {
		value, err := from.Read()
		if err != nil {
			return
		}
		text := r.to(value.Elements)
		if text == "" || !strings.ContainsRune("+-:*$", rune(text[0])) {
			text = fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

// to returns the reply to the longest command that the words begin with.
func (r replies) to(words []resp.Value) string {
	for n := len(words); n > 0; n-- {
		var command []string
		for _, word := range words[:n] {
			command = append(command, word.Text)
		}
		if text, ok := r[strings.Join(command, " ")]; ok {
			return text
		}
	}
	if len(words) == 2 && words[1].Text == "server" {
		return "redis_mode:standalone\r\n"
	}
	return "+OK\r\n"
}

// hostile returns servers that send what no Redis sends, or name an address that is not theirs.
func hostile(ip, port string) map[string]func(net.Conn) {
	const node = "a %s:%s@1 %s - 0 0 0 connected 0-1\n"
	nodes := fmt.Sprintf(node, "", "6379", "myself,master") + fmt.Sprintf(node, ip, port, "slave")
	named := array("name", "m", "ip", ip, "port", port, "flags", "master")
	return map[string]func(net.Conn){
		"huge-length":  say("$9000000000000000000\r\n"),
		"gigabytes":    say("$3000000000\r\n", "aaaaaaaaaaaaaaaa"),
		"huge-array":   say("*1000000000\r\n", ":1\r\n"),
		"endless-line": say("+", "aaaaaaaaaaaaaaaa"),
		"endless":      say("", "$5\r\nabcde\r\n"),
		"drip":         drip,
		"silent":       say(""),
		"fields":       replies{"INFO replication": fill(func(i int) string { return fmt.Sprintf("%x:\r\n", i) })}.serve,
		"replicas": replies{
			"INFO replication": "role:master\r\n" + fill(func(i int) string { return fmt.Sprintf("slave%d:\r\n", i) }),
		}.serve,
		"nodes": replies{
			"INFO server": "redis_mode:cluster\r\n", "CLUSTER INFO": "cluster_state:ok\r\n",
			"CLUSTER NODES": nodes + fill(func(int) string { return "a a a a a a a a\n" }),
		}.serve,
		"leader": replies{"INFO replication": "role:master\r\nmaster_repl_offset:1\r\n" +
			"slave0:ip=" + ip + ",port=" + port + ",state=online,offset=1,lag=0\r\n"}.serve,
		"follower": replies{"INFO replication": "role:slave\r\nmaster_host:" + ip + "\r\nmaster_port:" + port +
			"\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\n"}.serve,
		"watched": replies{"INFO replication": "role:master\r\n"}.serve,
		"sentinel": replies{
			"SENTINEL MASTERS": "*1\r\n" + named, "SENTINEL GET-MASTER-ADDR-BY-NAME": array(ip, port),
			"SENTINEL MASTER": named, "SENTINEL REPLICAS": "*1\r\n" + named, "SENTINEL SENTINELS": "*1\r\n" + named,
		}.serve,
	}
}

// say returns what sends one text and then another again and again, and reads nothing.
func say(first string, again ...string) func(net.Conn) {
	return func(conn net.Conn) {
		_, err := io.WriteString(conn, first)
		for text := strings.Repeat(strings.Join(again, ""), 1<<10); text != "" && err == nil; {
			_, err = io.WriteString(conn, text)
		}
		_, _ = io.Copy(io.Discard, conn)
	}
}

// drip sends a long string, slowly.
func drip(conn net.Conn) {
	_, err := io.WriteString(conn, "$100000\r\n")
	for err == nil {
		time.Sleep(50 * time.Millisecond)
		_, err = io.WriteString(conn, "a")
	}
}

// fill returns lines that are almost as long as a reply may be.
func fill(line func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < resp.MaxBytes-(1<<10); i++ {
		b.WriteString(line(i))
	}
	return b.String()
}

// array returns an array of bulk strings.
func array(texts ...string) string { return string(resp.Append(nil, texts...)) }
