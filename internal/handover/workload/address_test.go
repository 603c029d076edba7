package workload

import (
	"strings"
	"testing"
)

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, networks string
		pod            Pod
		want           string // the address, or a part of the error
	}{
		{"a pod", "", Pod{IP: "10.1.2.3"}, "10.1.2.3"},
		{"a pod with IPv6", "", Pod{IP: "fd00::1"}, "fd00::1"},
		{"IPv4 in IPv6", "", Pod{IP: "::ffff:127.0.0.1"}, "no unicast address"},
		{"no address", "", Pod{}, "no IP address yet"},
		{"no such address", "", Pod{IP: "localhost"}, "localhost"},
		{"a zone", "", Pod{IP: "fe80::1%eth0"}, "no unicast address"},
		{"loopback", "", Pod{IP: "127.0.0.1"}, "no unicast address"},
		{"loopback in a listed network", "10.0.0.0/8, 127.1.0.0/16", Pod{IP: "127.1.2.3"}, "127.1.2.3"},
		{"loopback in another network", "127.1.0.0/16", Pod{IP: "127.2.0.1"}, "and NETWORKS does not list it"},
		{"instance metadata", "", Pod{IP: "169.254.169.254"}, "no unicast address"},
		{"instance metadata by IPv6", "", Pod{IP: "fd00:ec2::254"}, "services of an instance"},
		{"instance metadata by NAT64", "", Pod{IP: "64:ff9b::a9fe:a9fe"}, "translated to IPv4"},
		{"instance metadata by 6to4", "", Pod{IP: "2002:a9fe:a9fe::1"}, "translated to IPv4"},
		{"unspecified", "", Pod{IP: "0.0.0.0"}, "no unicast address"},
		{"multicast", "", Pod{IP: "224.0.0.1"}, "no unicast address"},
		{"the network of the node", "", Pod{IP: "10.1.2.3", HostNetwork: true}, "hostNetwork"},
		{"the network of the node, listed", "10.1.0.0/16", Pod{IP: "10.1.2.3", HostNetwork: true}, "10.1.2.3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			networks, err := ParseNetworks(tt.networks)
			if err != nil {
				t.Fatal(err)
			}
			address, err := networks.AddressOf(tt.pod)
			if err == nil && address.String() != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v, want %q", address, err, tt.want)
			}
		})
	}
}

// TestParseNetworksRefuses: the example in the error is one address, because it may be copied, and all that is in a network
// may be called.
func TestParseNetworksRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"10.0.0.0", "10.0.0.0/33", "pods", "10.0.0.0/8;127.0.0.0/8"} {
		if networks, err := ParseNetworks(text); err == nil || !strings.Contains(err.Error(), "CIDR notation, for example 10.0.12.7/32") {
			t.Errorf("%q: got %v, %v", text, networks, err)
		}
	}
}

func TestPortOf(t *testing.T) {
	t.Parallel()
	ports := []Port{{"web", 80}, {"redis", 6379}}
	for _, tt := range []struct {
		name, annotation string
		names            []string
		want             int32 // -1 is an error
	}{
		{"a number", "8080", nil, 8080},
		{"a name", "web", nil, 80},
		{"a name before the defaults", "web", []string{"redis"}, 80},
		{"a default", "", []string{"valkey", "redis"}, 6379},
		{"none", "", []string{"valkey"}, 0},
		{"zero", "0", nil, -1},
		{"too large", "65536", nil, -1},
		{"no such name", "wbe", []string{"redis"}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := Pod{Ports: ports, Annotations: map[string]string{PortAnnotation: tt.annotation}}
			port, err := pod.PortOf(tt.names...)
			if (err != nil) != (tt.want < 0) || err == nil && port != tt.want {
				t.Errorf("got %d, %v", port, err)
			}
		})
	}
}
