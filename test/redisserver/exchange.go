package redisserver

import (
	"net"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
)

// timeout is that of a command.
const timeout = 10 * time.Second

// exchange sends a command over a connection and reads the reply.
func exchange(conn net.Conn, from *resp.Reader, args ...string) (resp.Value, error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return resp.Value{}, err
	}
	if _, err := conn.Write(resp.Append(nil, args...)); err != nil {
		return resp.Value{}, err
	}
	return from.Read()
}
