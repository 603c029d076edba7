package cluster

import (
	_ "embed" // For the files below.
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	logsDir        = "logs"
	auditLog       = "audit.log"
	kubeconfigFile = "kubeconfig"
)

var (
	//go:embed kwok.yaml
	kwokConfig []byte
	//go:embed audit-policy.yaml
	auditPolicy []byte
)

// reaper waits until its standard input ends, which it does when the owner of the folder dies, by SIGKILL too. Then it
// kills the process group of the components, and the processes whose numbers are in the folder.
const reaper = `cat >/dev/null
kill -s KILL -- "-$3" 2>/dev/null
for pid in "$1"/*.pid; do
  [ -f "$pid" ] && kill -9 "$(cat "$pid")" 2>/dev/null
done
[ "$2" = remove ] || exit 0
rm -rf "$1" 2>/dev/null || { sleep 1; rm -rf "$1"; }`

// folder holds one control plane: its configuration, its data and its logs.
type folder struct {
	dir    string
	remain bool // The user named it, and finds the logs there.
	// The first has the process group of the components, which exists as long as it runs. Both end with the pipe.
	anchor, reaper *exec.Cmd
	pipe           io.Closer
}

// newFolder creates the folder and starts its reaper.
func newFolder(dir string) (*folder, error) {
	f := &folder{dir: dir, remain: dir != ""}
	if err := f.make(); err != nil {
		return f, err
	}
	return f, f.guard()
}

func (f *folder) make() error {
	var err error
	if !f.remain {
		f.dir, err = os.MkdirTemp("", "node-drainer-cluster-")
	} else {
		err = os.MkdirAll(f.dir, 0o755)
	}
	if err != nil {
		return err
	}
	if f.dir, err = filepath.Abs(f.dir); err != nil {
		return err
	}
	if f.dir, err = filepath.EvalSymlinks(f.dir); err != nil {
		return err
	}
	if entries, err := os.ReadDir(f.dir); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("%s must be empty", f.dir))
	}
	return nil
}

// guard starts the anchor and the reaper, each in a process group of its own so that a Ctrl-C reaches neither.
func (f *folder) guard() error {
	after := "remove"
	if f.remain {
		after = "remain"
	}
	input, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	f.pipe = pipe
	start := func(name string, args ...string) (*exec.Cmd, error) {
		cmd := exec.Command(name, args...)
		cmd.Stdin, cmd.SysProcAttr = input, &syscall.SysProcAttr{Setpgid: true}
		return cmd, cmd.Start()
	}
	if f.anchor, err = start("/bin/cat"); err != nil {
		return err
	}
	f.reaper, err = start("/bin/sh", "-c", reaper, "node-drainer-reaper", f.dir, after,
		strconv.Itoa(f.anchor.Process.Pid))
	return err
}

// path returns a path inside the folder.
func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// writeConfig writes what the components read, and the administrator's kubeconfig.
func (f *folder) writeConfig(name string, p *ports, k *Kubelets) error {
	host, ips := loopback, []net.IP{net.ParseIP(loopback)}
	if k != nil {
		host, ips = k.Address, append(ips, net.ParseIP(k.Address), k.firstService())
	}
	return errors.Join(
		os.Mkdir(f.path(logsDir), 0o755),
		os.WriteFile(f.path("kwok.yaml"), kwokConfig, 0o600),
		os.WriteFile(f.path("audit-policy.yaml"), auditPolicy, 0o600),
		writeCertificates(f.path(authorityFile), f.path(certificateFile), f.path(keyFile), ips),
		f.writeKubeconfig(name, "https://"+net.JoinHostPort(host, strconv.Itoa(p.Port(apiServerPort)))))
}

// writeKubeconfig writes the administrator's kubeconfig, with the certificates in it: a client that read them from
// files would read these again every few minutes, also after the control plane is gone.
func (f *folder) writeKubeconfig(name, server string) error {
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: server, CertificateAuthority: f.path(authorityFile),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificate: f.path(certificateFile), ClientKey: f.path(keyFile),
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if err := clientcmdapi.FlattenConfig(&config); err != nil {
		return err
	}
	return clientcmd.WriteToFile(config, f.path(kubeconfigFile))
}

// remove removes the folder, unless the user named it. Nothing may run in it any more.
func (f *folder) remove() error {
	if f.pipe != nil {
		_ = f.pipe.Close() // The reaper takes this for our death, and removes the folder.
	}
	for _, cmd := range []*exec.Cmd{f.anchor, f.reaper} {
		if cmd != nil && cmd.Process != nil {
			_ = cmd.Wait() // The reaper may have killed the anchor.
		}
	}
	if f.remain {
		return nil
	}
	return os.RemoveAll(f.dir)
}
