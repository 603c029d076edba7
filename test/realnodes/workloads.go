package realnodes

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/realnodes/record"
)

const servePort = 8080

// Records returns the folder of the records of all containers.
func Records() string { return filepath.Join(Isolated(), "records") }

// Disks returns the folder of the disks of all nodes: each has a folder of its name.
func Disks() string { return filepath.Join(Isolated(), "disks") }

// Serve has the pods of a workload answer HTTP requests; see the command serve of the workload.
func Serve(flags ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		run(t, append([]string{"serve"}, flags...)).ReadinessProbe = readiness()
	}
}

// readiness is the probe of what listens on servePort.
func readiness() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/ready", Port: intstr.FromInt32(servePort),
		}},
		PeriodSeconds: 1,
	}
}

// run has the pods of a template run a command of the workload, and returns their container.
func run(t *corev1.PodTemplateSpec, args []string) *corev1.Container {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: path},
		}}
	}
	c := &t.Spec.Containers[0]
	mount(t, "records", Records(), record.Folder)
	c.Image, c.ImagePullPolicy, c.Args = workloadImage, corev1.PullNever, args
	c.Env = []corev1.EnvVar{
		field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_UID", "metadata.uid"), field("NODE_NAME", "spec.nodeName"),
	}
	// Without a request, the kubelet gives a container next to nothing of a busy machine's processors.
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	return c
}

// mount has the pods of a template use a folder of the host.
func mount(t *corev1.PodTemplateSpec, name, from, to string) {
	folder := corev1.HostPathDirectory
	Mount(t, name, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: from, Type: &folder}}, to)
}

// Mount has the pods of a template use a volume.
func Mount(t *corev1.PodTemplateSpec, name string, volume corev1.VolumeSource, to string) {
	t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: volume})
	c := &t.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: to})
}

// Service creates a Service for the pods of a workload that listen on servePort, and returns its URL.
func Service(ctx context.Context, c *cluster.Cluster, namespace, name string) (url string, err error) {
	address, err := service(ctx, c, namespace, name, corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(servePort)})
	return "http://" + address + "/", err
}

// service creates a Service for the pods of a workload, and returns its address.
func service(
	ctx context.Context, c *cluster.Cluster, namespace, name string, port corev1.ServicePort,
) (address string, err error) {
	s, err := c.Client().CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{cluster.AppLabel: name}, Ports: []corev1.ServicePort{port},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(port.Port))), nil
}

func makeFolders() error {
	return errors.Join(os.MkdirAll(Records(), 0o777), os.MkdirAll(Disks(), 0o777))
}
