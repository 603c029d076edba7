// Command workload is what runs in the containers of real nodes. Its first argument says what it does; without one it
// waits for SIGTERM, as the pause container of a pod does.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) < 2 {
		<-signals
		return
	}
	commands := map[string]func(*journal, <-chan os.Signal, []string) error{
		"serve": serve, "work": work, "end": end, "ignore": ignore, "stream": stream, "daemon": daemon, "depend": depend,
		"redis": redis,
	}
	do, ok := commands[os.Args[1]]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown command %q\n", os.Args[1])
		os.Exit(2)
	}
	j, err := openJournal()
	if err == nil {
		err = do(j, signals, os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	j.write(record.Exited, "")
}

// journal is the record of this process. It is in a folder of the machine's host, since the logs of a container go with
// its pod.
type journal struct {
	mu   sync.Mutex
	file *os.File
	pod  string
	node string
}

func openJournal() (*journal, error) {
	j := &journal{pod: os.Getenv("POD_NAME"), node: os.Getenv("NODE_NAME")}
	name := fmt.Sprintf("%s_%s_%s.jsonl", os.Getenv("POD_NAMESPACE"), j.pod, os.Getenv("POD_UID"))
	var err error
	j.file, err = os.OpenFile(filepath.Join(record.Folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	j.write(record.Started, "")
	return j, nil
}

func (j *journal) write(what record.What, detail string) {
	line, _ := json.Marshal(record.Line{At: time.Now(), Pod: j.pod, Node: j.node, What: what, Detail: detail})
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = j.file.Write(append(line, '\n'))
}

// handler answers with the name of the pod, after the time that a request takes.
func handler(ready *atomic.Bool, work time.Duration, pod string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(work):
			fmt.Fprintln(w, pod)
		case <-r.Context().Done():
		}
	})
	return mux
}

// serve answers HTTP requests on port 8080. At SIGTERM it goes on for a while, since requests still come until every
// load balancer knows that the pod is terminating, and then ends what it has begun.
func serve(j *journal, signals <-chan os.Signal, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	readyAfter := flags.Duration("ready-after", 0, "how long it takes to become ready")
	goOn := flags.Duration("go-on", 0, "how long it goes on after SIGTERM")
	work := flags.Duration("work", 0, "how long a request takes")
	listenAfter := flags.Duration("listen-after", 0, "how long it does not listen at all")
	abrupt := flags.Bool("abrupt", false, "exit at SIGTERM at once, whatever has begun")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var ready atomic.Bool
	<-time.After(*listenAfter)
	server := &http.Server{Addr: ":8080", Handler: handler(&ready, *work, j.pod), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	start := time.AfterFunc(*readyAfter, func() { ready.Store(true); j.write(record.Ready, "") })
	defer start.Stop()
	select {
	case err := <-failed:
		return err
	case s := <-signals:
		j.write(record.Signal, s.String())
	}
	if *abrupt {
		return nil
	}
	await(j, signals, time.After(*goOn))
	return drain(j, server)
}

// drain ends what a server has begun.
func drain(j *journal, server *http.Server) error {
	err := server.Shutdown(context.Background())
	j.write(record.Drained, "")
	return err
}
