// Command cluster builds the control plane that the tests run against, and runs one to look at.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/node-drainer/node-drainer/test/cluster"
)

const usage = `Runs a real Kubernetes control plane on this machine, without containers: etcd, kube-apiserver,
kube-controller-manager, kube-scheduler, and kwok, which plays the kubelets.

  cluster build            Builds what is missing of the binaries, and prints the folder that holds them.
                           The first build takes about 20 minutes on two cores. Tests need it done before.
  cluster up [--nodes N]   Starts a control plane with N nodes (3), prints the path of its kubeconfig, and
                           stays until it is interrupted (Ctrl-C). Nothing is left afterwards.

KUBE_BINARIES=DIR takes the binaries from DIR, and builds nothing.

Try:
  go run ./test/cluster/cmd/cluster up --nodes 5
  KUBECONFIG=(what it printed) kubectl get nodes
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cluster", flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	nodes := flags.Int("nodes", 3, "")
	command := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch command {
	case "build":
		dir, err := cluster.Binaries(ctx, os.Stderr)
		if err != nil {
			return err
		}
		fmt.Println(dir)
		return nil
	case "up":
		return up(ctx, *nodes)
	}
	flags.Usage()
	return errors.New("say what to do: build or up")
}

// up runs a control plane until ctx ends.
func up(ctx context.Context, nodes int) (err error) {
	c, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() {
		if closed := c.Close(); err == nil {
			err = closed
		}
	}()
	machines := c.Machines(cluster.Node{})
	for i := range nodes {
		zone := fmt.Sprintf("eu-central-1%c", 'a'+i%3)
		if err := machines.Launch(ctx, fmt.Sprintf("i-%017x", i+1), zone); err != nil {
			return err
		}
	}
	fmt.Println(c.Kubeconfig())
	fmt.Fprintf(os.Stderr, "Ready with %d nodes. Look around with KUBECONFIG=%s; Ctrl-C ends it.\n",
		nodes, c.Kubeconfig())
	<-ctx.Done()
	return nil
}
