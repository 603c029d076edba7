package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
	"github.com/node-drainer/node-drainer/internal/text"
)

// server is a connection to the Redis or the sentinel of a pod.
type server struct {
	pod                string
	dial               func(context.Context) (net.Conn, error)
	username, password string

	conn   net.Conn // nil while not connected
	reader *resp.Reader
	broken error // It is of no use since.
}

// connect connects and logs in, unless that was done before.
func (s *server) connect(ctx context.Context) error {
	if s.conn != nil || s.broken != nil {
		return s.broken
	}
	dialing, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := s.dial(dialing)
	if err != nil {
		s.broken = fmt.Errorf("connect to %s: %w", s.pod, cause(err))
		return s.broken
	}
	s.conn, s.reader = conn, resp.NewReader(conn)
	if s.broken = s.login(ctx); s.broken != nil {
		s.close()
	}
	return s.broken
}

// login logs in, if there is a password.
func (s *server) login(ctx context.Context) error {
	args := []string{"AUTH", s.username, s.password}
	switch {
	case s.password == "":
		return nil
	case s.username == "":
		args = []string{"AUTH", s.password}
	}
	_, err := s.exchange(ctx, args)
	return err
}

func (s *server) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// do sends a command and reads its reply, within the time of ctx and answerTimeout. An error reply is a resp.Error. A
// connection that the server has closed is opened again once: Sentinel closes all of them when it changes who leads.
func (s *server) do(ctx context.Context, args ...string) (resp.Value, error) {
	if err := s.connect(ctx); err != nil {
		return resp.Value{}, err
	}
	value, err := s.exchange(ctx, args)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		s.close()
		if err := s.connect(ctx); err != nil {
			return resp.Value{}, err
		}
		value, err = s.exchange(ctx, args)
	}
	if refused := resp.Error(""); err != nil && !errors.As(err, &refused) {
		s.broken = err
		s.close()
	}
	return value, err
}

// exchange sends a command and reads the reply. Its error does not quote the arguments: one may be a password.
func (s *server) exchange(ctx context.Context, args []string) (resp.Value, error) {
	value, err := s.roundTrip(ctx, resp.Append(nil, args...))
	if err != nil {
		return resp.Value{}, fmt.Errorf("%s of %s: %w", args[0], s.pod, cause(err))
	}
	return value, nil
}

func (s *server) roundTrip(ctx context.Context, command []byte) (resp.Value, error) {
	if err := ctx.Err(); err != nil {
		return resp.Value{}, err
	}
	if err := s.conn.SetDeadline(until(ctx, answerTimeout)); err != nil {
		return resp.Value{}, err
	}
	conn := s.conn
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(command); err != nil {
		return resp.Value{}, s.whyClosed(err)
	}
	return s.reader.Read()
}

// whyClosed returns the alert of a server that has refused our certificate: it closes the connection after the
// handshake, so that writing to it may fail before the alert is read. Otherwise it returns err.
func (s *server) whyClosed(err error) error {
	if _, ok := s.conn.(*tls.Conn); !ok {
		return err
	}
	var alert *net.OpError
	if _, why := s.reader.Read(); errors.As(why, &alert) && alert.Op == "remote error" {
		return why
	}
	return err
}

// info returns the fields of a section of INFO.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	return s.fields(ctx, "INFO", section)
}

// maxFields bounds a text of fields, in bytes. What a pod says of itself is stored for the whole call, and there may be
// many pods.
const maxFields = 1 << 15

// fields sends a command whose reply is lines of a name, a colon and a value.
func (s *server) fields(ctx context.Context, args ...string) (map[string]string, error) {
	value, err := s.do(ctx, args...)
	if err != nil {
		return nil, err
	}
	if n := len(value.Text); n > maxFields {
		return nil, fmt.Errorf("%s of %s: %d bytes: %w", args[0], s.pod, n, resp.ErrTooLarge)
	}
	fields := map[string]string{}
	for line := range strings.Lines(value.Text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// replication asks for the state of replication.
func (s *server) replication(ctx context.Context) (replication, error) {
	info, err := s.info(ctx, "replication")
	if err != nil {
		return replication{}, err
	}
	return replicationOf(info), nil
}

// replication is what a member says of its replication.
type replication struct {
	master   bool
	leader   address   // the one that it replicates from; empty if it is a master
	inSync   bool      // its link to the leader is up, and no synchronization is under way
	priority int       // 0: Sentinel does not promote it
	offset   int64     // what it has of the stream, in bytes
	failover bool      // It executes FAILOVER.
	history  [2]string // the IDs of the stream that it has, and of the one that this continues
	replicas []connected
}

// connected is a replica that is connected to a member.
type connected struct {
	address
	online bool
	offset int64
	lag    int // seconds since it last acknowledged something
}

// address is one that Redis names: not to be connected to.
type address struct {
	host, port string
}

func replicationOf(info map[string]string) replication {
	r := replication{
		master:   info["role"] == "master",
		priority: number(info["slave_priority"]),
		offset:   int64(number(info["master_repl_offset"])),
		failover: info["master_failover_state"] != "" && info["master_failover_state"] != "no-failover",
		history:  [2]string{info["master_replid"], info["master_replid2"]},
	}
	if !r.master {
		r.leader = address{info["master_host"], info["master_port"]}
		r.inSync = info["master_link_status"] == "up" && info["master_sync_in_progress"] == "0"
		r.offset = int64(number(info["slave_repl_offset"]))
	}
	for i := 0; ; i++ {
		text, ok := info["slave"+strconv.Itoa(i)]
		if !ok {
			return r
		}
		r.replicas = append(r.replicas, connectedOf(text))
	}
}

// connectedOf parses ip=IP,port=PORT,state=STATE,offset=BYTES,lag=SECONDS.
func connectedOf(text string) (c connected) {
	for field := range strings.SplitSeq(text, ",") {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "ip":
			c.host = value
		case "port":
			c.port = value
		case "state":
			c.online = value == "online"
		case "offset":
			c.offset = int64(number(value))
		case "lag":
			c.lag = number(value)
		}
	}
	return c
}

// lists reports whether items that are separated by commas include one. A pod may send very many.
func lists(items, one string) bool {
	for item := range strings.SplitSeq(items, ",") {
		if item == one {
			return true
		}
	}
	return false
}

// number parses an integer; what is none is 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// cause words the errors of a connection that users see most.
func cause(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", answerTimeout)
	}
	return err
}

// printable makes a line of limited length out of a text that may contain what a peer sent.
func printable(message string) string {
	const most = 300
	return text.Cut(text.Clean(message), most)
}
