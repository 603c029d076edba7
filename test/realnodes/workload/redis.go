package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// askTimeout bounds a question, and the time until a sentinel takes itself for the first one.
const askTimeout = 2 * time.Second

// redis runs a Redis server, or a sentinel, with the configuration in its environment. Who leads, the sentinels say. A
// server waits until one answers: if it did not, one that moves would lead again, and lose what was written meanwhile.
func redis(j *journal, signals <-chan os.Signal, args []string) error {
	flags := flag.NewFlagSet("redis", flag.ContinueOnError)
	as := flags.String("as", "redis-server", "redis-server or redis-sentinel")
	data := flags.String("data", "/data", "the folder of its data, in which it has one of its own")
	ask := flags.String("ask", "", "the address of the sentinels; it asks none if it is empty")
	master := flags.String("master", "", "the name that the sentinels know the leader by")
	if err := flags.Parse(args); err != nil {
		return err
	}
	leader := ""
	if *ask != "" {
		var err error
		if leader, err = waitLeader(signals, *ask, *master, *as == "redis-sentinel"); err != nil {
			return err
		}
	}
	dir := filepath.Join(*data, os.Getenv("POD_NAMESPACE")+"_"+j.pod)
	config := configure(os.Getenv("CONFIG"), os.Getenv("POD_IP"), leader)
	err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "redis.conf"), []byte(config), 0o600))
	if err != nil {
		return err
	}
	server := exec.Command("/redis-server", "redis.conf")
	server.Args[0] = *as // by which it knows what to be
	server.Dir, server.Stdout, server.Stderr = dir, os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	return supervise(j, signals, server)
}

// supervise sends a signal on to a process, and returns when that has exited.
func supervise(j *journal, signals <-chan os.Signal, process *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	j.write(record.Ready, "")
	select {
	case err := <-ended:
		return fmt.Errorf("it has exited by itself: %w", err)
	case s := <-signals:
		j.write(record.Signal, s.String())
		return errors.Join(process.Process.Signal(s), <-ended)
	}
}

// configure fills in the addresses of the pod and of the leader. Without a leader to follow it leaves out all lines
// from the first one that names it.
func configure(template, ip, leader string) string {
	if before, _, names := strings.Cut(template, "$LEADER"); names && (leader == "" || leader == ip) {
		template = before[:strings.LastIndex(before, "\n")+1]
	}
	return os.Expand(template, func(name string) string {
		return map[string]string{"POD_IP": ip, "LEADER": leader}[name]
	})
}

// waitLeader asks who leads until it is answered. It returns nothing if the sentinels know of no leader, and, to the
// first of them, if nobody listens there.
func waitLeader(signals <-chan os.Signal, address, master string, isSentinel bool) (leader string, err error) {
	begin := time.Now()
	for {
		leader, err = askLeader(address, master)
		isFirst := isSentinel && errors.Is(err, syscall.ECONNREFUSED) && time.Since(begin) > askTimeout
		if err == nil || isFirst {
			return leader, nil
		}
		select {
		case <-signals:
			return "", err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// askLeader asks a sentinel.
func askLeader(address, master string) (leader string, err error) {
	conn, err := net.DialTimeout("tcp", address, askTimeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	question := resp.Append(nil, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", master)
	if _, err := conn.Write(question); err != nil {
		return "", err
	}
	if err := conn.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return "", err
	}
	answer, err := resp.NewReader(conn).Read()
	if err != nil || len(answer.Elements) == 0 {
		return "", err
	}
	return answer.Elements[0].Text, nil
}
