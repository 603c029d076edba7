// Package cli is the command line of the trigger: its commands, flags and variables, the clients of AWS and
// Kubernetes, the output, and the exit codes. What the commands do is package rollout's.
package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/report"
)

// Main runs the trigger with the arguments, the environment and the signals of the process, and returns the
// exit code, as report.ExitCodes lists them. It calls exit, which is os.Exit, at a second signal.
func Main(version string, exit func(code int)) (code int) {
	surviveClosedPipes()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go's messages would break into the live view
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it so that the program outlives its terminal.
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals // The first one stops the trigger in order, the second one ends it at once.
		cancel()
		<-signals
		restoreTerminal(os.Stdout)
		exit(report.Interrupted.ExitCode())
	}()
	p := newProgram(os.Environ(), os.Stdout, os.Stderr)
	p.executor.version = version
	if len(os.Args) > 0 {
		p.name = programName(os.Args[0])
	}
	return p.run(ctx, os.Args[1:])
}

// programName is what users type for the program of this path: trigger, or kubectl node-drainer for the plugin of
// kubectl whose file is kubectl-node_drainer.
func programName(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".exe")
	if plugin, is := strings.CutPrefix(name, "kubectl-"); is {
		return "kubectl " + strings.NewReplacer("-", " ", "_", "-").Replace(plugin)
	}
	return "trigger"
}
