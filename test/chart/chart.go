// Package chart renders the Helm chart of this repository, with the Helm that the repository pins, for
// whatever tests it.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Root returns the root of the repository, found from the working directory upward.
func Root() (string, error) {
	gomod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", explain("go env GOMOD", err)
	}
	return filepath.Dir(strings.TrimSpace(string(gomod))), nil
}

// Path returns the folder of the chart.
func Path() (string, error) {
	root, err := Root()
	return filepath.Join(root, "charts", "node-drainer"), err
}

// helm is where the built program is: go knows, and builds it if it must, for two minutes the first time.
//
//nolint:gochecknoglobals // It is found once for a process, as it cannot move.
var helm = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	module := filepath.Join(root, "tools", "charts", "go.mod")
	find := exec.Command("go", "tool", "-modfile="+module, "-n", "helm")
	find.Dir = root
	out, err := find.Output()
	return strings.TrimSpace(string(out)), explain("go tool -n helm", err)
})

// Helm runs helm and returns what it wrote to its standard output. The environment is env alone, beside a
// home of its own, so that no setting of the user gets in. The error has what helm wrote to its standard
// error.
func Helm(ctx context.Context, env []string, args ...string) (string, error) {
	path, err := helm()
	if err != nil {
		return "", err
	}
	home, err := os.MkdirTemp("", "node-drainer-helm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"HOME=" + home}, env...)
	var out bytes.Buffer
	cmd.Stdout = &out
	var failure bytes.Buffer
	cmd.Stderr = &failure
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, failure.String())
	}
	return out.String(), nil
}

// Render returns the objects that the chart makes with the values in args, which are flags of helm template.
func Render(
	ctx context.Context, release, namespace string, args ...string,
) ([]unstructured.Unstructured, error) {
	path, err := Path()
	if err != nil {
		return nil, err
	}
	return template(ctx, path, release, namespace, args...)
}

// RenderHandover is Render for the chart of the program that has pods hand over.
func RenderHandover(
	ctx context.Context, release, namespace string, args ...string,
) ([]unstructured.Unstructured, error) {
	path, err := Path()
	if err != nil {
		return nil, err
	}
	return template(ctx, path+"-handover", release, namespace, args...)
}

func template(
	ctx context.Context, path, release, namespace string, args ...string,
) ([]unstructured.Unstructured, error) {
	out, err := Helm(ctx, nil, append([]string{"template", release, path, "--namespace", namespace}, args...)...)
	if err != nil {
		return nil, err
	}
	return Parse(out)
}

// Parse reads the objects in the YAML that helm writes.
func Parse(text string) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var o unstructured.Unstructured
		switch err := documents.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}

// Find converts the one object of a kind with that name into the typed object that into points at.
func Find(objects []unstructured.Unstructured, kind, name string, into any) error {
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true)
		}
	}
	return fmt.Errorf("the chart renders no %s %s", kind, name)
}

// Definitions returns the files of the CustomResourceDefinitions of the chart's ServiceMonitor, PodMonitor and
// PrometheusRule, as the Prometheus Operator publishes them with its module.
func Definitions(ctx context.Context) ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	const operator = "github.com/prometheus-operator/prometheus-operator"
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", operator)
	download.Dir = filepath.Join(root, "test", "chart", "operator")
	out, err := download.Output()
	if err != nil {
		return nil, explain("go mod download "+operator, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("read what go mod download %s says: %w", operator, err)
	}
	folder := filepath.Join(module.Dir, "example", "prometheus-operator-crd")
	return []string{
		filepath.Join(folder, "monitoring.coreos.com_podmonitors.yaml"),
		filepath.Join(folder, "monitoring.coreos.com_prometheusrules.yaml"),
		filepath.Join(folder, "monitoring.coreos.com_servicemonitors.yaml"),
	}, nil
}

func explain(command string, err error) error {
	if err == nil {
		return nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s: %w: %s", command, err, exit.Stderr)
	}
	return fmt.Errorf("%s: %w", command, err)
}
