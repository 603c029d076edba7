package realnodes

import (
	"fmt"
	"net"
	"strconv"
)

// The network of the machines. Nothing of it is seen outside the namespaces.
const (
	machinesDevice = "nd-machines"
	// hostAddress is that of the test, and of the API server.
	hostAddress  = "10.201.0.1"
	serviceRange = "10.96.0.0/16"
)

// machineAddress is the address of the nth node.
func machineAddress(n int) string { return fmt.Sprintf("10.201.%d.%d", 1+n/250, 1+n%250) }

// podSubnet is where the pods of the nth node have their addresses.
func podSubnet(n int) string { return fmt.Sprintf("10.%d.%d.0/24", 210+n/250, n%250) }

// connectMachines makes the network to which all machines belong.
func connectMachines() error {
	if err := ip("link", "add", machinesDevice, "type", "bridge"); err != nil {
		return err
	}
	if err := ip("address", "add", hostAddress+"/16", "dev", machinesDevice); err != nil {
		return err
	}
	if err := ip("link", "set", machinesDevice, "up"); err != nil {
		return err
	}
	// Without a route the kernel refuses connections to cluster IPs, before kube-proxy can forward them.
	return ip("route", "add", "default", "dev", machinesDevice)
}

// Listen returns the address of a port of the test, which pods reach.
func Listen(port int) string { return net.JoinHostPort(hostAddress, strconv.Itoa(port)) }
