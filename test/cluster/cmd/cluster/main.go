// Command cluster builds what is missing of the control plane that the tests run against, and prints the folder of its
// programs. The first build takes about 20 minutes on two cores. KUBE_BINARIES=DIR names programs that exist already.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, err := cluster.Binaries(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
