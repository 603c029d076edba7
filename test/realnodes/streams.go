package realnodes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// Streams holds streams of a Service, as the command stream of the workload serves them, each on a connection of its
// own, and opens each again that the server has ended.
type Streams struct {
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	account StreamsAccount
}

// StreamsAccount is how streams have ended.
type StreamsAccount struct {
	Opened  int // that had a line
	Told    int // The server told the client to connect again, and ended the stream.
	Refused []string
	Broken  []string // Any other end.
}

// StartStreams opens so many streams, and holds them until Stop.
func StartStreams(url string, n int) *Streams {
	ctx, stop := context.WithCancel(context.Background())
	s := &Streams{stop: stop}
	for range n {
		s.work.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			pause := time.NewTicker(100 * time.Millisecond)
			defer pause.Stop()
			for ctx.Err() == nil {
				s.hold(ctx, client, url)
				<-pause.C
			}
		})
	}
	return s
}

// hold opens a stream, and returns at its end.
func (s *Streams) hold(ctx context.Context, client *http.Client, url string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err) // The URL is a constant of the test.
	}
	response, err := client.Do(request)
	if err != nil {
		s.note(ctx, func(a *StreamsAccount) { a.Refused = append(a.Refused, err.Error()) })
		return
	}
	defer response.Body.Close()
	last, began := "", time.Now()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if last == "" {
			s.note(ctx, func(a *StreamsAccount) { a.Opened++ })
		}
		last = lines.Text()
	}
	err = lines.Err()
	if err == nil && last != record.Reconnect {
		err = errors.New("the stream ended without a word")
	}
	if err != nil {
		broken := fmt.Sprintf("after %v: %v", time.Since(began), err)
		s.note(ctx, func(a *StreamsAccount) { a.Broken = append(a.Broken, broken) })
		return
	}
	s.note(ctx, func(a *StreamsAccount) { a.Told++ })
}

// note changes the account, unless the streams are being stopped: what they end with then is the test's own doing.
func (s *Streams) note(ctx context.Context, change func(*StreamsAccount)) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.account)
}

// Account returns how streams have ended so far.
func (s *Streams) Account() StreamsAccount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account
}

// Stop closes all streams, and returns the account.
func (s *Streams) Stop() StreamsAccount {
	s.stop()
	s.work.Wait()
	return s.account
}
