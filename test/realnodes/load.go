package realnodes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

// answerTimeout is how long a client waits for an answer: longer than a busy machine takes for one. That of a pod
// that is gone never comes.
const answerTimeout = 20 * time.Second

// Load sends requests at a fixed rate, whether or not the requests before have been answered, and keeps an account.
type Load struct {
	url     string
	clients []*http.Client
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	account Account
}

// Account is what became of the requests of a Load.
type Account struct {
	Began    time.Time
	Sent     int
	Each     []int     // requests that were sent in each second
	Failures []Failure // In the order of their times.
	Slowest  time.Duration
}

// Failure is a request that was not answered with status 200.
type Failure struct {
	Sent time.Time
	Took time.Duration
	What string
}

// StartLoad sends so many GET requests a second to the URL until Stop: every other one on a connection of its own, the
// others on connections that are kept.
func StartLoad(url string, rate int) *Load {
	client := func(once bool) *http.Client {
		return &http.Client{
			Timeout:   answerTimeout,
			Transport: &http.Transport{DisableKeepAlives: once, MaxIdleConnsPerHost: rate},
		}
	}
	l := &Load{url: url, clients: []*http.Client{client(false), client(true)}}
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.account.Began = stop, time.Now()
	l.work.Go(func() { l.send(ctx, rate) })
	return l
}

// send sends requests. After a pause of the machine it sends those that are due at once, so that the rate is kept.
func (l *Load) send(ctx context.Context, rate int) {
	for n := 0; ; n++ {
		wait := time.NewTimer(time.Until(l.account.Began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
			l.work.Go(func() { l.request(l.clients[n%len(l.clients)]) })
		}
	}
}

func (l *Load) request(client *http.Client) {
	sent := time.Now()
	err := get(client, l.url)
	took := time.Since(sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.count(sent)
	l.account.Slowest = max(l.account.Slowest, took)
	if err != nil {
		l.account.Failures = append(l.account.Failures, Failure{sent, took, err.Error()})
	}
}

// count counts a request.
func (a *Account) count(sent time.Time) {
	second := int(sent.Sub(a.Began) / time.Second)
	a.Each = append(a.Each, make([]int, max(0, second+1-len(a.Each)))...)
	a.Each[second]++
	a.Sent++
}

func get(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}

// Stop ends the load, waits for the answers that are outstanding, and returns the account.
func (l *Load) Stop() Account {
	l.stop()
	l.work.Wait() // Further calls return the same.
	for _, c := range l.clients {
		c.CloseIdleConnections()
	}
	slices.SortFunc(l.account.Failures, func(a, b Failure) int { return a.Sent.Compare(b.Sent) })
	return l.account
}

// WaitAnswer waits until a URL is answered.
func WaitAnswer(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return harness.Eventually(ctx, func() string {
		if err := get(client, url); err != nil {
			return err.Error()
		}
		return ""
	})
}
