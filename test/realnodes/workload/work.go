package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

// work takes jobs from the queue of the test, one at a time, and reports each that it has done. At SIGTERM it ends the
// one that it has.
func work(j *journal, signals <-chan os.Signal, args []string) error {
	flags := flag.NewFlagSet("work", flag.ContinueOnError)
	queue := flags.String("queue", "", "the URL of the queue")
	takes := flags.Duration("takes", 20*time.Second, "how long a job takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	j.write(record.Ready, "")
	client := &http.Client{Timeout: 10 * time.Second}
	for {
		job, err := take(client, *queue, j.pod)
		if err != nil {
			return err
		}
		end := time.After(100 * time.Millisecond) // until the next look
		if job != "" {
			j.write(record.JobBegun, job)
			end = time.After(*takes)
		}
		told := await(j, signals, end)
		if job != "" {
			j.write(record.JobDone, job)
			if err := done(client, *queue, j.pod, job); err != nil {
				return err
			}
		}
		if told {
			return nil
		}
	}
}

// await waits, records the signals that come meanwhile, and reports whether there were any.
func await(j *journal, signals <-chan os.Signal, end <-chan time.Time) (told bool) {
	for {
		select {
		case s := <-signals:
			j.write(record.Signal, s.String())
			told = true
		case <-end:
			return told
		}
	}
}

// take takes a job; empty if there is none.
func take(client *http.Client, queue, pod string) (job string, err error) {
	return post(client, queue+"/take?pod="+url.QueryEscape(pod))
}

// done reports that a job is done.
func done(client *http.Client, queue, pod, job string) error {
	_, err := post(client, queue+"/done?pod="+url.QueryEscape(pod)+"&job="+url.QueryEscape(job))
	return err
}

func post(client *http.Client, address string) (string, error) {
	response, err := client.Post(address, "", nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", address, response.Status)
	}
	return string(text), err
}
