package workload

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Networks are the networks of pods that may be called although their addresses are loopback or link-local, or the
// pods use the network of their node.
type Networks []netip.Prefix

// ParseNetworks parses networks in CIDR notation, separated by commas. An empty text is no network.
func ParseNetworks(text string) (Networks, error) {
	var all Networks
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		one, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, fmt.Errorf("%q: must be a network in CIDR notation, for example 10.0.12.7/32", item)
		}
		all = append(all, one.Masked())
	}
	return all, nil
}

// elsewhere returns networks of which no pod has an address, and behind which there are others: what IPv4 addresses are
// translated to (RFC 6052, RFC 8215, RFC 3056, RFC 4380), and instance metadata and other services of EC2 by IPv6
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html).
func elsewhere() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
		netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fd00:ec2::/32"),
	}
}

// AddressOf returns the address that a pod may be called at. Pods are not trusted: one that uses the network of its
// node has the address of the node, behind which there are other services, as behind loopback and link-local
// addresses, such as the instance metadata service.
func (n Networks) AddressOf(p Pod) (netip.Addr, error) {
	if p.IP == "" {
		return netip.Addr{}, errors.New("the pod has no IP address yet")
	}
	address, err := netip.ParseAddr(p.IP)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("the IP address %q of the pod: %w", p.IP, err)
	}
	address = address.Unmap()
	for _, network := range n {
		if network.Contains(address) {
			return address, nil
		}
	}
	switch {
	case slices.ContainsFunc(elsewhere(), func(network netip.Prefix) bool { return network.Contains(address) }):
		return netip.Addr{}, fmt.Errorf("the address %s of the pod is translated to IPv4, or of the services of an instance",
			address)
	case p.HostNetwork:
		return netip.Addr{}, errors.New("the pod uses the network of its node (hostNetwork), " +
			"and NETWORKS does not list its address")
	case !address.IsGlobalUnicast():
		return netip.Addr{}, fmt.Errorf("the pod has the address %s, which is no unicast address of a network, "+
			"and NETWORKS does not list it", address)
	}
	return address, nil
}

// PortOf returns the port to call: that of PortAnnotation, a number or the name of a port; without the annotation
// the first of the pod's ports with one of these names; zero if there is none. The error says what to write.
func (p Pod) PortOf(names ...string) (int32, error) {
	value := p.Annotations[PortAnnotation]
	if number, err := strconv.ParseUint(value, 10, 16); err == nil && number > 0 {
		return int32(number), nil
	}
	if value != "" {
		names = []string{value}
	}
	for _, name := range names {
		for _, port := range p.Ports {
			if port.Name == name {
				return port.Number, nil
			}
		}
	}
	if value != "" {
		return 0, fmt.Errorf("%s is %q: must be a number from 1 to 65535, or the name of a port of the pod",
			PortAnnotation, value)
	}
	return 0, nil
}
