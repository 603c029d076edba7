package realnodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/node-drainer/node-drainer/test/harness"
)

// How logind is called on the bus.
const (
	logindName      = "org.freedesktop.login1"
	logindPath      = dbus.ObjectPath("/org/freedesktop/login1")
	logindInterface = "org.freedesktop.login1.Manager"
)

// logind stands for the service of systemd that delays the shutdown of a machine until a kubelet has ended its pods,
// and for the message bus of the machine.
type logind struct {
	bus     *exec.Cmd
	address string
	conn    *dbus.Conn

	mu    sync.Mutex
	locks []lock
}

// lock is one that delays the shutdown: it is released when its holder closes the other end of the pipe.
type lock struct{ held, released *os.File }

// startLogind starts a message bus, and logind there, which delays a shutdown for so long at most.
func (n *node) startLogind(ctx context.Context, most time.Duration) (err error) {
	l := &logind{address: "unix:path=" + n.path("bus")}
	config := fmt.Sprintf(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>%s</listen>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
  </policy>
</busconfig>
`, l.address)
	if err := os.WriteFile(n.path("bus.conf"), []byte(config), 0o600); err != nil {
		return err
	}
	l.bus, err = n.spawn("dbus-daemon", nil, "--config-file="+n.path("bus.conf"), "--nofork", "--nopidfile")
	if err != nil {
		return err
	}
	n.logind = l
	err = harness.Eventually(ctx, func() string {
		if l.conn, err = dbus.Connect(l.address); err != nil {
			return err.Error()
		}
		return ""
	})
	if err != nil {
		return err
	}
	properties := prop.Map{logindInterface: {"InhibitDelayMaxUSec": {Value: uint64(most.Microseconds())}}}
	if _, err := prop.Export(l.conn, logindPath, properties); err != nil {
		return err
	}
	if err := l.conn.Export(l, logindPath, logindInterface); err != nil {
		return err
	}
	_, err = l.conn.RequestName(logindName, dbus.NameFlagDoNotQueue)
	return err
}

// Inhibit is the method of logind: the caller gets the descriptor of a lock.
func (l *logind) Inhibit(_, _, _, _ string) (dbus.UnixFD, *dbus.Error) {
	released, held, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locks = append(l.locks, lock{held, released})
	return dbus.UnixFD(held.Fd()), nil
}

// shutdown has all that hold a lock know that the machine is to shut down, and returns when they have released them.
func (l *logind) shutdown() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.locks) == 0 {
		return errors.New("nobody delays the shutdown")
	}
	if err := l.conn.Emit(logindPath, logindInterface+".PrepareForShutdown", true); err != nil {
		return err
	}
	for _, one := range l.locks {
		err := one.held.Close() // The caller has the other copy.
		_, read := io.Copy(io.Discard, one.released)
		if err := errors.Join(err, read, one.released.Close()); err != nil {
			return err
		}
	}
	l.locks = nil
	return nil
}

// ShutDown has the machine of an instance shut down, and returns when its kubelet has ended the pods, for which it has
// the time that GraceAtShutdown says. The machine then does nothing more.
func (m *Machines) ShutDown(instanceID string) error {
	n, err := m.machine(instanceID)
	if err != nil {
		return err
	}
	if n.logind == nil {
		return errors.New("the machine was launched without GraceAtShutdown")
	}
	return n.logind.shutdown()
}

// GraceAtShutdown has the kubelets of further machines end their pods when the machine shuts down, within a time; no
// longer if it is 0. It needs the Debian package dbus-daemon.
func (m *Machines) GraceAtShutdown(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shutdownGrace = d
}
