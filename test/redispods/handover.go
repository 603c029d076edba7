package redispods

import (
	"os/exec"
)

// Handover is the program that has the pods of a namespace hand over.
type Handover struct {
	Program    string // the path of the binary
	Kubeconfig string
	Namespace  string
	Address    string   // that Expose has returned
	Env        []string // more settings
}

// Command returns the command that starts the program. It has started when it logs "handover started".
func (h Handover) Command() *exec.Cmd {
	cmd := exec.Command(h.Program)
	cmd.Env = append([]string{
		"GORACE=halt_on_error=1", "KUBECONFIG=" + h.Kubeconfig, "POD_NAMESPACE=" + h.Namespace, "LISTEN_ADDRESS=" + h.Address,
		"NETWORKS=127.0.0.0/8", "PASSWORDS_IN_CLEAR=true", "LOG_LEVEL=debug",
	}, h.Env...)
	return cmd
}
