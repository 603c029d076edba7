// Command play runs a simulated AWS with three Auto Scaling groups, and an API server with their nodes, to try the
// trigger on. It prints what to try, and runs until it is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// region and cluster are those of the account.
const region, cluster = "eu-central-1", "play"

// toTry is printed after the command that sets the variables.
const toTry = `
  bin/trigger plan --cluster play                         # what is outdated, and what a run would send
  bin/trigger --asg workers --surge 1                     # an Instance Refresh, one instance at a time
  bin/trigger status --asg workers --watch                # in another shell: until it has ended
  bin/trigger --asg batch --mode unhealthy --batch 2 --surge 2
  bin/trigger --asg spot --mode standby --batch 3
  bin/trigger cancel --asg workers
  bin/trigger --cluster play --all --parallel-asgs 0      # again, all groups at once

There is no agent: a hook holds each instance for five seconds before it terminates. Ctrl-C ends all.
`

func main() {
	os.Exit(harness.Main(func(ctx context.Context) int {
		if err := play(ctx, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "play:", err)
			return harness.ExitFailed
		}
		return 0
	}))
}

// play runs everything until ctx ends.
func play(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "node-drainer-play-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	nodes := &machines{kube.New(1)}
	api := httptest.NewServer(proxy(nodes.Server))
	defer api.Close()
	s, err := awsim.New(awsim.Options{Region: region, Machines: nodes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := fill(ctx, s); err != nil {
		return err
	}
	variables, err := writeVariables(dir, s.URL(), api.URL)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "A simulated AWS with three groups of four instances each runs here. In another shell:\n\n"+
		"  . %s\n%s", variables, toTry)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// fill creates the groups. Their instances are outdated: each was launched from version 1, and there is a version 2.
func fill(ctx context.Context, s *awsim.Server) error {
	client := ec2.NewFromConfig(aws.Config{
		Region: region, BaseEndpoint: aws.String(s.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("play", "play", ""),
	})
	for name, least := range map[string]int{"workers": 0, "batch": 100, "spot": 0} {
		if err := template(ctx, client, name, "ami-1"); err != nil {
			return err
		}
		g := awsim.Group{
			Name: name, Desired: 4, Max: 10, LaunchTemplate: name, LaunchTemplateVersion: "$Latest",
			Tags: map[string]string{"kubernetes.io/cluster/" + cluster: "owned"},
		}
		if g.MinHealthy = least; least > 0 {
			g.MaxHealthy = 150
		}
		if err := s.CreateGroup(g); err != nil { //nolint:contextcheck // the group lives until the server is closed
			return err
		}
		if err := s.WaitInstances(ctx, name, areInService); err != nil {
			return err
		}
		if err := s.PutHook(name, awsim.Hook{Name: "drain", CompletedAfter: 5 * time.Second}); err != nil {
			return err
		}
		_, err := client.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateName: &name, LaunchTemplateData: dataOf("ami-2"),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func areInService(all []awsim.Instance) bool {
	return len(all) == 4 && !slices.ContainsFunc(all, func(i awsim.Instance) bool { return i.State != "InService" })
}

func template(ctx context.Context, client *ec2.Client, name, image string) error {
	_, err := client.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: dataOf(image),
	})
	return err
}

func dataOf(image string) *ec2types.RequestLaunchTemplateData {
	return &ec2types.RequestLaunchTemplateData{ImageId: &image}
}

// writeVariables writes a file for the shell, and the kubeconfig that it names.
func writeVariables(dir, awsURL, apiURL string) (file string, err error) {
	config, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "variables")
	var variables strings.Builder
	for _, v := range [][2]string{
		{"AWS_ENDPOINT_URL", awsURL},
		{"AWS_REGION", region},
		{"AWS_ACCESS_KEY_ID", "play"},
		{"AWS_SECRET_ACCESS_KEY", "play"},
		{"AWS_EC2_METADATA_DISABLED", "true"},
		{"KUBECONFIG", config},
	} {
		fmt.Fprintf(&variables, "export %s='%s'\n", v[0], v[1])
	}
	return file, errors.Join(os.WriteFile(file, []byte(variables.String()), 0o600),
		harness.WriteKubeconfig(config, apiURL))
}

// proxy serves the API server by HTTP. What it does not have does not exist.
func proxy(s *kube.Server) http.Handler {
	target := &url.URL{Scheme: "http", Host: "kubernetes"}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: s.Transport("play"), FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusNotFound) },
	}
}

// machines registers a Ready Node for each instance, without pods.
type machines struct{ *kube.Server }

func (m *machines) Launch(_ context.Context, instanceID, zone string) error {
	return m.Create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + instanceID},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instanceID},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	})
}

func (m *machines) Terminate(ctx context.Context, instanceID string) ([]string, error) {
	client, err := m.Client("play")
	if err != nil {
		return nil, err
	}
	return nil, client.CoreV1().Nodes().Delete(ctx, "node-"+instanceID, metav1.DeleteOptions{})
}

func (m *machines) Pods(context.Context, string) ([]string, error) { return nil, nil }
