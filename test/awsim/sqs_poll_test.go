package awsim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLongPoll(t *testing.T) {
	for name, wake := range map[string]func(s *Server, url string){
		"a message is sent":              func(s *Server, url string) { s.Send(url, "b") },
		"a message becomes visible":      func(s *Server, url string) { s.ExpireVisibility(url) },
		"the visibility timeout is over": func(*Server, string) { time.Sleep(15 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := offline(t)
				url := s.CreateQueue("jobs", nil)
				poll := func(seconds int) int {
					body := fmt.Appendf(nil, `{"QueueUrl":%q,"WaitTimeSeconds":%d,"VisibilityTimeout":15}`, url, seconds)
					out, err := queueAPI{s.sqs}.receive(t.Context(), input{Body: body})
					if err != nil {
						t.Error(err)
						return 0
					}
					return len(out.(receiveAnswer).Messages)
				}
				s.Send(url, "a")
				poll(0)
				began, got := time.Now(), make(chan int)
				go func() { got <- poll(20) }()
				synctest.Wait()
				wake(s, url)
				if n, took := <-got, time.Since(began); n != 1 || took > 15*time.Second {
					t.Errorf("received %d after %v", n, took)
				}
			})
		})
	}
}
