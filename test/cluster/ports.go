package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// Below the range from which the kernel takes ports for outgoing connections, which would
	// snatch one between our look and the component's start.
	lowestPort  = 18000
	highestPort = 32000
	blockSize   = 8

	loopback = "127.0.0.1"
)

// ports is a block of ports of this machine. We listen on the first ourselves: that keeps other
// control planes, which look the same way, off the block even before its components listen.
type ports struct {
	first int
	guard net.Listener
}

// reservePorts finds a block that is free.
func reservePorts() (*ports, error) {
	var last error
	for range 200 {
		first := lowestPort + rand.IntN((highestPort-lowestPort)/blockSize)*blockSize
		guard, err := listen(first)
		if err != nil {
			last = err
			continue
		}
		p := &ports{first: first, guard: guard}
		if last = p.check(); last == nil {
			return p, nil
		}
		_ = p.release()
	}
	return nil, fmt.Errorf("found no free ports: %w", last)
}

// check fails if another program uses a port of the block.
func (p *ports) check() error {
	for i := 1; i < blockSize; i++ {
		l, err := listen(p.Port(i))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Port returns the block's nth port; the first, number 0, is taken.
func (p *ports) Port(n int) int { return p.first + n }

func (p *ports) release() error {
	err := p.guard.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", address(port))
}

// address returns the address of a port of this machine.
func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
