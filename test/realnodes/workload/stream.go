package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// stream serves connections that last: a line each second. At SIGTERM it tells each client to connect again, and ends
// its stream. Clients that still reach it are told so at once.
func stream(j *journal, signals <-chan os.Signal, args []string) error {
	flags := flag.NewFlagSet("stream", flag.ContinueOnError)
	goOn := flags.Duration("go-on", 0, "how long it goes on to accept connections after SIGTERM")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ending := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { lines(w, r, ending) })
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	j.write(record.Ready, "")
	select {
	case err := <-failed:
		return err
	case s := <-signals:
		j.write(record.Signal, s.String())
	}
	close(ending)
	await(j, signals, time.After(*goOn))
	return drain(j, server)
}

// lines writes a stream until the client or the server ends it.
func lines(w http.ResponseWriter, r *http.Request, ending <-chan struct{}) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ending:
			fmt.Fprintln(w, record.Reconnect)
			return
		case <-r.Context().Done():
			return
		case <-second.C:
			fmt.Fprintln(w, "more")
			_ = http.NewResponseController(w).Flush()
		}
	}
}
