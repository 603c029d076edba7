package refresh

import (
	"slices"
	"testing"
)

func TestSelection(t *testing.T) {
	t.Parallel()
	groups := []Group{
		{Name: "blue-a", Tags: map[string]string{"kubernetes.io/cluster/blue": "owned", "team": "x"}},
		{Name: "blue-b", Tags: map[string]string{"k8s.io/cluster-autoscaler/blue": "true", "team": "y"}},
		{Name: "blue-c", Tags: map[string]string{"eks:cluster-name": "blue", "spot": ""}},
		{Name: "green", Tags: map[string]string{"eks:cluster-name": "green", "team": "x", "spot": "yes"}},
	}
	for _, tt := range []struct {
		name  string
		s     Selection
		want  []string
		text  string
		empty bool
	}{
		{name: "a cluster, by any of its tags", s: Selection{Cluster: "blue"}, want: []string{"blue-a", "blue-b", "blue-c"}, text: "of the cluster blue"},
		{name: "a tag", s: Selection{Tags: map[string]string{"team": "x"}}, want: []string{"blue-a", "green"}, text: "with the tag team of the value x"},
		{name: "a tag of any value", s: Selection{Tags: map[string]string{"spot": ""}}, want: []string{"blue-c", "green"}, text: "with the tag spot"},
		{
			name: "all of them together", s: Selection{Names: []string{"a", "b"}, Cluster: "blue", Tags: map[string]string{"spot": "", "team": "x"}},
			text: "of the names a, b and of the cluster blue and with the tag spot and with the tag team of the value x",
		},
		{name: "nothing", want: []string{"blue-a", "blue-b", "blue-c", "green"}, empty: true},
	} {
		var got []string
		for _, g := range groups {
			if tt.s.Contains(g) {
				got = append(got, g.Name)
			}
		}
		if !slices.Equal(got, tt.want) || tt.s.String() != tt.text || tt.s.Empty() != tt.empty {
			t.Errorf("%s: %q contains %v, empty %v", tt.name, tt.s, got, tt.s.Empty())
		}
	}
}

func TestClusterOf(t *testing.T) {
	for _, tt := range []struct{ name, key, value, want string }{
		{"owned by a cluster", "kubernetes.io/cluster/blue", "owned", "blue"},
		{"shared by clusters", "kubernetes.io/cluster/blue", "shared", "blue"},
		{"no longer owned", "kubernetes.io/cluster/blue", "", ""},
		{"an Amazon EKS node group", "eks:cluster-name", "blue", "blue"},
		{"as EC2 copies it", "aws:eks:cluster-name", "blue", "blue"},
		{"found by the cluster autoscaler", "k8s.io/cluster-autoscaler/blue", "owned", "blue"},
		{"found by the cluster autoscaler, which ignores the value", "k8s.io/cluster-autoscaler/blue", "true", "blue"},
		{"the cluster autoscaler is enabled", "k8s.io/cluster-autoscaler/enabled", "owned", ""},
		{"a label of its nodes", "k8s.io/cluster-autoscaler/node-template/label/disk", "shared", ""},
		{"no name", "kubernetes.io/cluster/", "owned", ""},
		{"another tag", "team", "owned", ""},
		{"nothing", "", "", ""},
	} {
		if got := ClusterOf(tt.key, tt.value); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
