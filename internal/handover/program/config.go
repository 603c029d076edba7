package program

import (
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v10"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
)

// Config is the configuration, from environment variables. The help is generated from the tags.
type Config struct {
	ListenAddress    string `env:"LISTEN_ADDRESS" envDefault:":8080" help:"Address that questions are answered at."`
	PodNamespace     string `env:"POD_NAMESPACE,required,notEmpty" help:"Namespace of the pod of this program, and of the pods that it has hand over, from the downward API."`
	PodName          string `env:"POD_NAME" envDefault:"" help:"Name of the pod of this program, from the downward API. It leaves its node after the pods there that hand over. Empty outside a cluster."`
	Networks         string `env:"NETWORKS" envDefault:"" help:"Networks in CIDR notation, separated by commas, of pods that may be connected to although they use the network of their node, or although their addresses are of a node, loopback or link-local. Empty: none."`
	PasswordsInClear bool   `env:"PASSWORDS_IN_CLEAR" envDefault:"false" help:"Whether passwords may be sent without TLS, that is, if the Secret of a pod has no ca.crt."`
	Surges           bool   `env:"SURGES" envDefault:"false" help:"Whether a StatefulSet may get one more pod for the time in which a leader without a replica moves, if its pods have the annotation node-drainer.io/hand-over-surge."`
	SurgeRecords     string `env:"SURGE_RECORDS" envDefault:"node-drainer-handover-surges" help:"ConfigMap in the namespace that surges are recorded in. It must exist."`
	LogLevel         string `env:"LOG_LEVEL" envDefault:"info" help:"Lowest level of the log lines that are written: debug, info, warn or error."`
	LogFormat        string `env:"LOG_FORMAT" envDefault:"json" help:"Format of the log lines: json, or console, which is easier to read."`
}

// Read reads the configuration from the environment, given as KEY=VALUE.
func Read(environ []string) (c Config, err error) {
	if err := env.ParseWithOptions(&c, env.Options{Environment: env.ToMap(environ)}); err != nil {
		return c, fmt.Errorf("the configuration has mistakes (handover --help lists the variables): %w", err)
	}
	var errs []error
	if _, _, err := net.SplitHostPort(c.ListenAddress); err != nil {
		errs = append(errs, fmt.Errorf("LISTEN_ADDRESS is %q: must be HOST:PORT or :PORT", c.ListenAddress))
	}
	if _, err := workload.ParseNetworks(c.Networks); err != nil {
		errs = append(errs, fmt.Errorf("NETWORKS is %w", err))
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		errs = append(errs, fmt.Errorf("LOG_LEVEL is %q: must be debug, info, warn or error", c.LogLevel))
	}
	if !slices.Contains([]string{"json", "console"}, c.LogFormat) {
		errs = append(errs, fmt.Errorf("LOG_FORMAT is %q: must be json or console", c.LogFormat))
	}
	return c, errors.Join(errs...)
}

// Answer answers --help and --version, and returns the exit code.
func Answer(args []string, version string, stdout, stderr io.Writer) int {
	switch request := strings.Join(args, " "); request {
	case "--help", "-h":
		_, _ = fmt.Fprint(stdout, help())
	case "--version", "version":
		_, _ = fmt.Fprintln(stdout, "node-drainer handover", version)
	default:
		_, _ = fmt.Fprintf(stderr, "unknown argument %q: environment variables configure the program, see handover --help\n",
			request)
		return 2
	}
	return 0
}

// help lists the variables.
func help() string {
	var b strings.Builder
	b.WriteString(`Usage: handover

Has Redis and Valkey pods of one namespace hand over their leadership before they are
evicted, when the agent of node-drainer asks it to. Environment variables configure it:

`)
	for f := range reflect.TypeFor[Config]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		value := f.Tag.Get("envDefault")
		if strings.Contains(f.Tag.Get("env"), "required") {
			value = "(required)"
		}
		fmt.Fprintf(&b, "  %-20s %s\n      %s\n", name, value, f.Tag.Get("help"))
	}
	return b.String()
}
