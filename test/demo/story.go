package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const (
	// storyTimeout bounds the story, which takes some 20 s.
	storyTimeout = 75 * time.Second
	// look is how often the bar is drawn, and how long facts are gathered that are told in one line.
	look = 500 * time.Millisecond
)

// Who says or does what the story tells.
const (
	you    = "you"
	amazon = "AWS"
	ours   = "agent"
	theirs = "pods"
)

// play scales one instance in and tells what happens until it is gone.
func (w *world) play(ctx context.Context) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, storyTimeout,
		fmt.Errorf("the instance is not gone %v after the scale-in", storyTimeout))
	defer cancel()
	p, err := watchPods(ctx, w.cluster, w.node())
	if err != nil {
		return result{}, err
	}
	s := &story{
		world: w, pods: p, began: time.Now(),
		blocked: map[string]map[string]bool{}, told: map[string]bool{},
	}
	w.screen.line("")
	if err := w.scaleIn(ctx); err != nil {
		return result{}, fmt.Errorf("scale in: %w", err)
	}
	s.tell(time.Now(), you, "scale in: TerminateInstanceInAutoScalingGroup %s", w.screen.bold(w.instance))
	s.tell(time.Now(), amazon, "desired capacity %d -> %d; the hook holds the instance, the queue has a message",
		instances, instances-1)
	return s.follow(ctx)
}

// scaleIn asks as a user would: with the SDK, under an access key of his own.
func (w *world) scaleIn(ctx context.Context) error {
	client := autoscaling.New(autoscaling.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient),
		Region:     region, BaseEndpoint: aws.String(w.aws.URL()),
		Credentials: credentials.NewStaticCredentialsProvider(you, "demo", ""),
	})
	in := autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(w.instance), ShouldDecrementDesiredCapacity: aws.Bool(true),
	}
	_, err := client.TerminateInstanceInAutoScalingGroup(ctx, &in)
	return err
}

// story tells what the agent's log, the watch of the pods and the simulated AWS say.
type story struct {
	*world
	pods  *pods
	began time.Time

	beats    int
	gone     int // Pods, when they were told of last.
	blocked  map[string]map[string]bool
	told     map[string]bool // Budgets.
	tainted  time.Time
	drained  time.Time
	forced   int
	stayed   bool // The DaemonSet's pod, to the end of the drain.
	closed   *awsim.Action
	released bool // The end of the action has been told.
}

// tell writes one line of the story.
func (s *story) tell(at time.Time, who, format string, args ...any) {
	s.screen.line("%s", s.sentence(at, who, fmt.Sprintf(format, args...)))
}

func (s *story) sentence(at time.Time, who, text string) string {
	since := fmt.Sprintf("%+6.1f s", max(at.Sub(s.began), 0).Seconds())
	return s.screen.faint(since) + "  " + s.screen.actor(fmt.Sprintf("%-5s", who), who) + "  " + text
}

func (s *screen) actor(text, who string) string {
	colours := map[string]string{you: "35", amazon: "33", ours: "36", theirs: "32"}
	return s.paint(colours[who], text)
}

// ending is one step of what Auto Scaling and SQS do in the end.
type ending struct {
	what endingKind
	at   time.Time
	err  error
	a    awsim.Action
}

type endingKind int

const (
	actionClosed endingKind = iota
	messageDeleted
	instanceTerminated
)

// endings asks the simulated AWS itself, not the agent, how it ends.
func (s *story) endings(ctx context.Context) <-chan ending {
	out := make(chan ending, instanceTerminated+1)
	go func() {
		defer close(out)
		a, err := s.aws.WaitClosed(ctx, s.instance)
		out <- ending{actionClosed, a.ClosedAt, err, a}
		if err == nil {
			err = s.aws.WaitDrained(ctx, s.queue)
			out <- ending{messageDeleted, time.Now(), err, a}
		}
		if err == nil {
			err = s.aws.WaitState(ctx, s.instance, "Terminated")
			out <- ending{instanceTerminated, time.Now(), err, a}
		}
	}()
	return out
}

// follow tells everything until the instance is gone.
func (s *story) follow(ctx context.Context) (result, error) {
	endings := s.endings(ctx)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	defer s.screen.status("")
	for {
		err := error(nil)
		done := false
		select {
		case <-ctx.Done():
			return result{}, context.Cause(ctx)
		case l, ok := <-s.agent.lines:
			if !ok {
				return result{}, s.agent.failure()
			}
			err = s.hear(ctx, l)
		case <-s.pods.changed:
			s.draw()
		case <-ticker.C:
			s.gather()
		case e := <-s.ready(endings):
			done, err = s.end(e)
		}
		if err != nil {
			return result{}, err
		}
		if done {
			return s.result(ctx)
		}
	}
}

// ready holds back what comes after the end of the action until that has been told.
func (s *story) ready(endings <-chan ending) <-chan ending {
	if s.closed != nil && !s.released {
		return nil
	}
	return endings
}

// hear tells what a line of the agent's log says, if it belongs to the story.
func (s *story) hear(ctx context.Context, l logLine) error {
	switch l.Message {
	case "event received":
		if l.Instance == s.instance {
			s.tell(l.At, ours, "event received from the queue: %s", l.Event)
		}
	case "node cordoned":
		s.tainted = l.At
		return s.marked(ctx, l)
	case "heartbeat sent":
		s.beats++
		s.tell(l.At, ours, "heartbeat %d: the hook holds for another %v", s.beats, heartbeatTimeout)
	case "eviction blocked":
		for _, budget := range l.Budgets {
			if s.blocked[budget] == nil {
				s.blocked[budget] = map[string]bool{}
			}
			s.blocked[budget][l.Pod] = true
		}
	case "node drained":
		s.empty(l)
		s.tell(l.At, ours, "%s a fresh list shows no pod left that had to go", s.screen.bold("node drained:"))
		s.release()
	default:
		s.trouble(l)
	}
	return nil
}

// empty ends the bar: on a terminal its last state becomes a line. The agent has asked the API server, so
// our watch may be a moment behind it.
func (s *story) empty(l logLine) {
	late := time.After(setupTimeout)
	for v, waiting := s.pods.view(), true; waiting && v.Gone < v.Total; v = s.pods.view() {
		select {
		case <-s.pods.changed:
		case <-late:
			waiting = false
		}
	}
	s.gather()
	s.drained, s.forced, s.stayed = l.At, l.Forced, s.pods.view().Stays
	s.screen.status("")
	if s.screen.terminal {
		s.tell(l.At, theirs, "%s", s.progress(s.pods.view()))
	}
}

// trouble tells what no run should have, without deciding what comes of it.
func (s *story) trouble(l logLine) {
	if l.Level == "warn" || l.Level == "error" {
		s.tell(l.At, ours, "%s (%s: %s)", s.screen.red(l.Message), l.Doing, l.Error)
	}
}

// gather tells what has come together since it was called last.
func (s *story) gather() {
	v := s.pods.view()
	for budget, held := range s.blocked {
		if !s.told[budget] {
			s.told[budget] = true
			s.tell(time.Now(), ours, "%s %d pods wait for PodDisruptionBudget %s: %d of %d must be ready",
				s.screen.yellow("blocked:"), len(held), budget, least, replicas)
		}
	}
	if !s.screen.terminal && v.Gone != s.gone {
		s.tell(time.Now(), theirs, "%s", s.progress(v))
	}
	s.draw()
	s.gone = v.Gone
}

// draw renews the bar, from the taint to the end of the drain.
func (s *story) draw() {
	if !s.tainted.IsZero() && s.drained.IsZero() {
		s.screen.status(s.sentence(time.Now(), theirs, s.progress(s.pods.view())))
	}
}

// progress shows how far the pods are. It leaves room for what stands before it.
func (s *story) progress(v view) string {
	const before, words = 18, 44
	width := max(min(s.screen.width()-before-words, 30), 5)
	bar := s.screen.bar(v.Gone, v.Stopping, v.Total, width)
	return fmt.Sprintf("%s %2d/%d moved, %d stopping, %d waiting; %d ready",
		bar, v.Gone, v.Total, v.Stopping, v.Total-v.Gone-v.Stopping, v.Ready)
}

// end takes one step of the end, and returns whether it was the last.
func (s *story) end(e ending) (done bool, err error) {
	if e.err != nil {
		return false, e.err
	}
	switch e.what {
	case actionClosed:
		s.closed = &e.a
		if e.a.ClosedBy != awsim.ByCompletion {
			return false, fmt.Errorf("the hook was not completed: it ended by %s", e.a.ClosedBy)
		}
		s.release()
	case messageDeleted:
		s.tell(e.at, ours, "message deleted from the queue, last of all")
	case instanceTerminated:
		s.tell(e.at, amazon, "instance terminated, its node is gone")
		return true, nil
	}
	return false, nil
}

// release tells that the action has ended, once the line that says why has been read, too.
func (s *story) release() {
	if s.closed == nil || s.drained.IsZero() || s.released {
		return
	}
	s.released = true
	s.tell(s.closed.ClosedAt, ours, "hook completed with %s; pods left to move on the node: %d",
		s.screen.bold(s.closed.Result), len(s.closed.PodsAtClose))
}
