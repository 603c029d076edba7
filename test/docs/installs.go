package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/node-drainer/node-drainer/test/chart"
)

const queue = "https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"

// Install is what the chart makes of a command, or of a file with values, that a page shows.
type Install struct {
	Page    string
	Objects []unstructured.Unstructured
}

// Installs renders each command of helm for our chart that a page shows, and each YAML block that is marked
// as values of the chart. What the chart refuses fails the test.
func Installs(t testing.TB) []Install {
	t.Helper()
	var all []Install
	render := func(page string, flags ...string) {
		objects, err := chart.Render(t.Context(), "node-drainer", "node-drainer", flags...)
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		all = append(all, Install{page, objects})
	}
	required := []string{
		"--set", "config.clusterName=prod,config.queue.url=" + queue,
		"--set", "image.registry=registry.example.com",
	}
	for name, page := range Pages(t) {
		for _, block := range Blocks(page, "sh") {
			for _, command := range block.Commands() {
				command, isPiped := strings.CutPrefix(command, "terraform -chdir=infrastructure output -raw helm_values | ")
				switch flags := flagsOfHelm(command); {
				case isPiped, strings.HasPrefix(command, "helm upgrade "): // it has the values of Terraform or before besides
					render(name, append(required, flags...)...)
				case len(flags) > 0:
					render(name, flags...)
				}
			}
		}
		for _, block := range Blocks(page, "yaml") {
			if block.Mark == "values" {
				file := filepath.Join(t.TempDir(), "values.yaml")
				if err := os.WriteFile(file, []byte(block.Text), 0o600); err != nil {
					t.Fatal(err)
				}
				render(name, append(required, "-f", file)...)
			}
		}
	}
	return all
}

// flagsOfHelm are those of a command for our chart that decide on what it renders; none for other commands.
func flagsOfHelm(command string) []string {
	if !regexp.MustCompile(`^helm (install|upgrade|template) .*charts/node-drainer`).MatchString(command) {
		return nil
	}
	var flags []string
	words := strings.Fields(command)
	for i, word := range words[:len(words)-1] {
		if slices.Contains([]string{"--set", "--set-string", "--set-json", "--show-only"}, word) {
			flags = append(flags, word, strings.Trim(words[i+1], `'"`))
		}
	}
	return flags
}

// Environment is what a pod sets for its first container, save for what is known in a cluster only.
func Environment(pod corev1.PodSpec) []string {
	var all []string
	for _, v := range pod.Containers[0].Env {
		if v.ValueFrom == nil {
			all = append(all, v.Name+"="+v.Value)
		}
	}
	return all
}
