package redis

import (
	"strings"
	"testing"
)

// FuzzFields checks what is promised of what a pod says of its replication and its cluster: no more replicas than it
// has named, and hosts that are compared and never taken apart.
func FuzzFields(f *testing.F) {
	f.Add("role:master\r\nslave0:ip=10.0.0.1,port=6379,state=online,offset=1,lag=0\r\n", "a 10.0.0.1:6379@16379,h master - 0 0 1 connected 0-1")
	f.Add("role:slave\r\nmaster_host:\r\nmaster_port:x\r\nslave_repl_offset:-9223372036854775808", ": @ , - - - - connected")
	f.Fuzz(func(t *testing.T, info, node string) {
		fields := map[string]string{}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			fields[name] = value
		}
		r := replicationOf(fields)
		if len(r.replicas) > len(fields) {
			t.Fatalf("%d replicas of %d fields", len(r.replicas), len(fields))
		}
		if parts := strings.SplitN(strings.TrimSpace(node), " ", 9); len(parts) >= 8 {
			n := clusterNodeOf(parts)
			if !strings.Contains(parts[1], n.host) || !strings.Contains(parts[1], n.port) {
				t.Fatalf("%q is at %q, %q", parts[1], n.host, n.port)
			}
		}
	})
}
