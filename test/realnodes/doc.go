// Package realnodes runs nodes whose containers run: kubelets, each with a containerd of its own, beside the control
// plane of package cluster. awsim's instances start and stop them. Pods get their signals, serve requests, and are
// killed with their machine, which kwok's are not.
//
// All of it runs in namespaces of its own (of processes, mounts and the network), which end with the test binary in
// whatever way that ends. It needs root and the Debian packages containerd, runc, containernetworking-plugins, iproute2
// and nftables; Main skips the tests of a package where they cannot run, and says why. Redis in containers needs
// redis-tools, and machines that shut down need dbus-daemon.
package realnodes
