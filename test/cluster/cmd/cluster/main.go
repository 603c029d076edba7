// Command cluster prints the folder of the programs of the control plane that the tests run against, after it has
// downloaded or built those that are missing; see cluster.Binaries for the variables. With -sums it prints the
// published SHA-256 sums of the programs instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func main() {
	published := flag.Bool("sums", false, "print test/cluster/sums.txt for the versions in test/cluster/binaries/go.mod")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	text, err := "", error(nil)
	if *published {
		text, err = cluster.PublishedSums(ctx)
	} else {
		text, err = cluster.Binaries(ctx, os.Stderr, cluster.Kubectl)
		text += "\n"
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}
