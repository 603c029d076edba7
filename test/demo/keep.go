package main

import (
	"context"
	"path/filepath"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// keep leaves the world up until the user ends it, and says what there is to see.
func (w *world) keep(ctx context.Context) error {
	next := ""
	for _, i := range w.aws.Instances(group) {
		if i.State == "InService" {
			next = i.ID
			break
		}
	}
	kubectl := filepath.Join(w.binaries, "kubectl")
	w.screen.line("\n%s", w.screen.bold("All of it is still running. Look around from another terminal:"))
	w.screen.line("  export KUBECONFIG=%s", w.cluster.Kubeconfig())
	w.screen.line("  alias kubectl=%s", kubectl)
	for _, command := range []string{
		"get nodes --show-labels", "get events --sort-by=.lastTimestamp  # the agent's words about the node",
		"-n " + shop + " get pods,pdb -o wide",
		"-n " + shop + " get pods -o wide --watch --field-selector spec.nodeName=" + cluster.NodeName(next),
	} {
		w.screen.line("  kubectl %s", command)
	}
	w.screen.line("Drain one more (any AWS client does; the signature is not checked):")
	w.screen.line("  curl --aws-sigv4 aws:amz:%s:autoscaling -u me:me %s \\", region, w.aws.URL())
	w.screen.line("    -d Action=TerminateInstanceInAutoScalingGroup -d Version=2011-01-01 \\")
	w.screen.line("    -d InstanceId=%s -d ShouldDecrementDesiredCapacity=true", next)
	w.screen.line("Agent:  %s/metrics, log %s", w.agent.url, filepath.Join(w.cluster.Dir(), "agent.log"))
	w.screen.line("AWS:    AWS_ENDPOINT_URL=%s, hooks: curl %[1]s/_awsim/ledger", w.aws.URL())
	w.screen.line("%s", w.screen.bold("Ctrl-C ends it, and leaves nothing behind."))
	for {
		select {
		case <-ctx.Done():
			return errKept
		case _, ok := <-w.agent.lines: // A full pipe would hold the agent.
			if !ok {
				return w.agent.failure()
			}
		}
	}
}
