package sim

import (
	"context"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// otherTools are the tools that have hooks of their own.
type otherTools struct{ *world }

// otherHook returns the hook of an open action of another tool; ok is false for all other actions.
func (w otherTools) otherHook(a awsim.Action) (h Hook, ok bool) {
	h = w.hookOf(a)
	return h, h.Name != "" && h.Install == "" && a.ClosedAt.IsZero()
}

// holdOthers completes the hooks of other tools when they have had the time that they need.
func (w otherTools) holdOthers(ctx context.Context) {
	held := map[string]bool{}
	for {
		var next awsim.Action
		var hook Hook
		err := w.aws.WaitLedger(ctx, func(actions []awsim.Action) bool {
			i := slices.IndexFunc(actions, func(a awsim.Action) bool {
				h, ok := w.otherHook(a)
				hook = h
				return ok && !held[a.Token]
			})
			if i >= 0 {
				next = actions[i]
			}
			return i >= 0
		})
		if err != nil {
			return
		}
		held[next.Token] = true
		w.work.Go(func() {
			if retry.Sleep(ctx, hook.Holds) {
				w.complete(ctx, next)
			}
		})
	}
}

// client returns a client of somebody who is not an agent.
func (w *world) client() *autoscaling.Client {
	return autoscaling.New(autoscaling.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(w.aws.URL()), HTTPClient: &http.Client{Transport: w.aws},
		Credentials: credentials.NewStaticCredentialsProvider("other", "secret", ""),
	})
}

// complete completes an action as another tool does.
func (w otherTools) complete(ctx context.Context, a awsim.Action) {
	_, err := w.client().CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: &a.Group, LifecycleHookName: &a.Hook, LifecycleActionToken: &a.Token,
		LifecycleActionResult: aws.String("CONTINUE"),
	})
	w.log.add("other tool", "completed", "hook", a.Hook, "node", a.InstanceID, "error", err)
}
