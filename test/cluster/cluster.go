package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds a start, which takes some 4 s on an idle machine.
const startTimeout = 10 * time.Minute

// Options says how a control plane is started. The zero value is good for tests.
type Options struct {
	Name string    // Appears in the kubeconfig; unique if empty.
	Dir  string    // Must be empty or absent, and is left behind with the logs; a temporary folder if empty.
	Log  io.Writer // Gets the progress of builds; nothing is written if nil.

	// Kubelets has the control plane serve kubelets, and pods that run, instead of kwok's.
	Kubelets *Kubelets
}

// Kubelets says how kubelets and pods reach the control plane.
type Kubelets struct {
	Address  string // An IP address of this machine.
	Services string // The range of the cluster IPs. Something must forward them.
}

// Cluster is a running control plane, with methods for each kind of object in it. Its methods may be called
// from several goroutines.
type Cluster struct {
	ControlPlane
	Nodes
	Workloads
	Budgets
	Access

	ports *ports
	close func() error
}

// Start starts a control plane with its own folder, name and ports, so that several can run at the same time,
// and returns when it is ready. If it fails, it removes everything. The control plane runs until Close is
// called or this process ends, in whatever way.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Name == "" {
		o.Name = "test-" + strings.ToLower(rand.Text()[:6])
	}
	binaries, err := Binaries(ctx, o.Log)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &Cluster{ControlPlane: ControlPlane{name: o.Name, binaries: binaries}}
	c.close = sync.OnceValue(c.end)
	if err := c.start(ctx, o); err != nil {
		err = fmt.Errorf("start control plane %s: %w%s", c.name, err, c.logTails())
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// start does the work of Start. If it fails, Close stops what it has started.
func (c *Cluster) start(ctx context.Context, o Options) error {
	var err error
	if c.folder, err = newFolder(o.Dir); err != nil {
		return err
	}
	if c.ports, err = reservePorts(); err != nil {
		return err
	}
	if err := c.folder.writeConfig(c.name, c.ports, o.Kubelets); err != nil {
		return err
	}
	c.components = newComponents(c.binaries, c.folder, c.ports, o.Kubelets)
	if err := c.ControlPlane.start(ctx); err != nil {
		return err
	}
	client := c.Client()
	c.Nodes, c.Workloads, c.Budgets = Nodes{client}, Workloads{client}, Budgets{client}
	c.Access = Access{admin: c.API, dir: c.Dir()}
	return nil
}

// Close stops every process of the control plane and removes its folder. It may be called more than
// once, and on a nil Cluster.
func (c *Cluster) Close() error {
	if c == nil {
		return nil
	}
	return c.close()
}

func (c *Cluster) end() error {
	var err error
	if c.components != nil {
		err = c.components.end()
	}
	if c.folder != nil {
		err = errors.Join(err, c.folder.remove())
	}
	if c.ports != nil {
		err = errors.Join(err, c.ports.release())
	}
	if err != nil {
		return fmt.Errorf("close control plane %s: %w", c.name, err)
	}
	return nil
}
