package redisserver

import (
	"context"
	"time"
)

// WatchMissing looks at all servers of a group until most is called, which returns how many were missing at once at
// most. A server is missing from when it stops, until it leads or is in sync again.
func WatchMissing(ctx context.Context, g *Group) (most func() int) {
	ctx, stop := context.WithCancel(ctx)
	result := make(chan int)
	go func() {
		seen := map[*Server]string{} // the address at which each was in sync
		for _, s := range g.Servers {
			seen[s] = s.IP()
		}
		count := 0
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			count = max(count, countMissing(ctx, g.Servers, seen))
			<-tick.C
		}
		result <- count
	}()
	return func() int {
		stop()
		return <-result
	}
}

// countMissing looks once, and counts the servers that have not been in sync since they were stopped. Others may
// connect to a new leader.
func countMissing(ctx context.Context, servers []*Server, seen map[*Server]string) (missing int) {
	for _, s := range servers {
		ip := s.IP()
		info, err := s.Info(ctx, "replication")
		switch {
		case ctx.Err() != nil:
			return 0
		case err != nil:
			seen[s] = ""
		case info["role"] == "master" || info["master_link_status"] == "up":
			seen[s] = ip
		}
		if seen[s] != ip {
			missing++
		}
	}
	return missing
}
