package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// local returns the path of a file in the folder of this pod's node, which the folder of all nodes contains.
func (j *journal) local(name string) (string, error) {
	dir := filepath.Join(record.Disks, j.node)
	return filepath.Join(dir, name), os.MkdirAll(dir, 0o777)
}

// daemon is a pod that others of its node need: it answers on a socket of the node until it is told to stop.
func daemon(j *journal, signals <-chan os.Signal, _ []string) error {
	socket, err := j.local("daemon.sock")
	if err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(listener) }()
	j.write(record.Ready, "")
	s := <-signals
	j.write(record.Signal, s.String())
	return server.Shutdown(context.Background())
}

// depend is a pod with a volume of its node, which one process at a time may have, and that needs the daemon of the
// node until its end: at SIGTERM it works on for a while, and leaves the volume in order.
func depend(j *journal, signals <-chan os.Signal, args []string) error {
	flags := flag.NewFlagSet("depend", flag.ContinueOnError)
	goOn := flags.Duration("go-on", 0, "how long it works on after SIGTERM")
	if err := flags.Parse(args); err != nil {
		return err
	}
	unlock, err := lockVolume(j)
	if err != nil {
		return err
	}
	client, err := daemonClient(j)
	if err != nil {
		return err
	}
	for request(client) != nil { // A new node may start the daemon later.
		if await(j, signals, time.After(100*time.Millisecond)) {
			return unlock()
		}
	}
	j.write(record.Ready, "")
	for !use(j, client, signals, nil) {
	}
	use(j, client, signals, time.After(*goOn))
	return unlock()
}

// use asks the daemon until the end, or until a signal if end is nil.
func use(j *journal, client *http.Client, signals <-chan os.Signal, end <-chan time.Time) (told bool) {
	for {
		if err := request(client); err != nil {
			j.write(record.Failed, err.Error())
		}
		if await(j, signals, time.After(100*time.Millisecond)) && end == nil {
			return true
		}
		select {
		case <-end:
			return false
		default:
		}
	}
}

// lockVolume takes the volume. A process that was killed leaves it locked.
func lockVolume(j *journal) (unlock func() error, err error) {
	lock, err := j.local(j.pod + ".lock")
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return func() error { return os.Remove(lock) }, file.Close()
}

func daemonClient(j *journal) (*http.Client, error) {
	socket, err := j.local("daemon.sock")
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}, err
}

func request(client *http.Client) error {
	response, err := client.Get("http://daemon/")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
