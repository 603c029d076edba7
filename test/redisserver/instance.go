package redisserver

import (
	"sync"

	"github.com/node-drainer/node-drainer/test/harness"
)

// instance is where a server is, and its process. A server may move while others look for it.
type instance struct {
	mu      sync.Mutex
	ip      string
	process *harness.Process // nil while it is stopped
}

// IP returns the address of the server's pod, which Move and Replace change.
func (i *instance) IP() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ip
}

func (i *instance) setIP(ip string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ip = ip
}

// running returns the process; nil while the server is stopped.
func (i *instance) running() *harness.Process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.process
}

// run sets the process, and returns the former one.
func (i *instance) run(process *harness.Process) (before *harness.Process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, i.process = i.process, process
	return before
}
