// Command awsim runs a small AWS on loopback: SQS, EC2 Auto Scaling, EC2 and STS, in memory.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/node-drainer/node-drainer/test/awsim"
)

//go:embed help.txt
var help string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	var opts awsim.Options
	flags := flag.NewFlagSet("awsim", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints an error in one line.
	flags.StringVar(&opts.Address, "listen", "127.0.0.1:4566", "`address` to listen on; port 0 is a free one")
	flags.StringVar(&opts.Region, "region", "eu-central-1", "`name` of the simulated region")
	flags.StringVar(&opts.Account, "account", "123456789012", "`id` of the simulated account")
	addQueue := func(name string) error { opts.Queues = append(opts.Queues, name); return nil }
	flags.Func("queue", "`name` of a queue to create; may be repeated", addQueue)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(out)
			fmt.Fprint(out, help)
			flags.PrintDefaults()
			return nil
		}
		return err
	}
	s, err := awsim.New(opts)
	if err != nil {
		return err
	}
	for _, name := range opts.Queues {
		fmt.Fprintf(out, "# queue %s\n", s.CreateQueue(name, nil))
	}
	fmt.Fprintf(out, "# awsim runs until it is interrupted\nexport AWS_ENDPOINT_URL=%s\nexport "+
		"AWS_REGION=%s\nexport AWS_ACCESS_KEY_ID=test\nexport AWS_SECRET_ACCESS_KEY=test\n", s.URL(), opts.Region)
	<-ctx.Done()
	return s.Close()
}
