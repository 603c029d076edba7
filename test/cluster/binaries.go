package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// binariesVariable names a folder with programs that the user already has; nothing is downloaded or built then.
	binariesVariable = "KUBE_BINARIES"
	// buildVariable makes Binaries build what is missing, without an attempt to download it.
	buildVariable = "DEMO_BUILD"
)

// Kubectl is a program that no control plane needs; see Binaries.
const Kubectl = "kubectl"

// program is one program of the control plane, and where it comes from.
type program struct {
	name   string
	module string // Its version is that of the program.
	pkg    string // The main package, in the module below binaries/.
}

const (
	etcdModule       = "go.etcd.io/etcd/server/v3"
	kubernetesModule = "k8s.io/kubernetes"
	kwokModule       = "sigs.k8s.io/kwok"
)

// programs returns the programs of a control plane, and others of Kubernetes.
func programs(others []string) []program {
	all := []program{{etcd, etcdModule, "./etcd"}, {kwok, kwokModule, kwokModule + "/cmd/kwok"}}
	for _, name := range append([]string{apiServer, controllerManager, scheduler}, others...) {
		all = append(all, program{name, kubernetesModule, kubernetesModule + "/cmd/" + name})
	}
	return all
}

// Binaries returns a folder that holds the programs of a control plane, and others such as Kubectl. It is the
// folder that KUBE_BINARIES names, if that is set; otherwise a folder in the user's cache that is named after the
// versions. Binaries downloads the programs that are missing there, and builds from Go modules those that it cannot
// download; with DEMO_BUILD=1 it builds all of them. It writes its progress to log. Several processes may call it at
// the same time: one downloads or builds, the others wait.
func Binaries(ctx context.Context, log io.Writer, others ...string) (string, error) {
	if log == nil {
		log = io.Discard
	}
	wanted := programs(others)
	if dir := os.Getenv(binariesVariable); dir != "" {
		return given(dir, wanted)
	}
	b, err := newBuilder(ctx, log)
	if err != nil {
		return "", err
	}
	if len(missing(b.out, wanted)) == 0 {
		return b.out, nil
	}
	return b.out, b.run(ctx, wanted)
}

// given checks the folder that the user named, so that the error comes now and says what to do,
// and not from deep inside a start.
func given(dir string, wanted []program) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if lacking := missing(dir, wanted); len(lacking) > 0 {
		return "", fmt.Errorf("%s=%s lacks %s (or they cannot be executed): put them there, or unset %s "+
			"to have the whole control plane downloaded", binariesVariable, dir, names(lacking), binariesVariable)
	}
	return dir, nil
}

// missing returns the programs that dir does not hold as executable files.
func missing(dir string, wanted []program) []program {
	return slices.DeleteFunc(slices.Clone(wanted), func(p program) bool {
		info, err := os.Stat(filepath.Join(dir, p.name))
		return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
	})
}

func names(programs []program) string {
	all := make([]string, 0, len(programs))
	for _, p := range programs {
		all = append(all, p.name)
	}
	return strings.Join(all, ", ")
}
