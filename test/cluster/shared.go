package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cleanupTimeout bounds what a test does to its leftovers after its own context has ended.
const cleanupTimeout = 30 * time.Second

// shared is the control plane of this test binary. It must be known to every test, and only the
// package level is.
var shared struct { //nolint:gochecknoglobals // See above.
	sync.Mutex
	allowed bool
	tried   bool
	cluster *Cluster
	err     error
	stop    func() // Stops the background work.
}

// Main runs the tests of a package and returns the exit code for TestMain. It builds missing binaries before
// the first test, because a build could exceed the timeout of the tests, and closes the control plane if a
// test has started it. If all tests have passed, it calls last to check the control plane before that.
func Main(m *testing.M, last ...func(*Cluster) error) int {
	flag.Parse()
	if list := flag.Lookup("test.list"); list == nil || list.Value.String() == "" {
		if _, err := Binaries(context.Background(), os.Stderr, Kubectl); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	shared.Lock()
	shared.allowed = true
	shared.Unlock()
	code := m.Run()

	shared.Lock()
	defer shared.Unlock()
	var err error
	for _, judge := range last {
		if code == 0 && shared.cluster != nil {
			err = errors.Join(err, judge(shared.cluster))
		}
	}
	if shared.stop != nil {
		shared.stop()
	}
	if err := errors.Join(err, shared.cluster.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Shared returns the control plane of this test package, which the first test that asks starts.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.allowed {
		t.Fatal("cluster.Shared needs: func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }")
	}
	if !shared.tried {
		shared.tried = true
		shared.cluster, shared.err = Start(context.Background(), Options{Log: os.Stderr})
		if shared.err == nil {
			shared.stop = shared.cluster.remindOften()
		}
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// Namespace creates a namespace for one test, and returns when pods can be created in it. It is deleted when
// the test ends; the test does not wait for that.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ownTime)
	defer cancel()
	ns, err := c.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: nameOf(t)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	afterwards(t, func(ctx context.Context) error {
		return c.Client().CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{})
	})
	if err := waitServiceAccount(ctx, c.Client(), ns.Name); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// nameOf returns the prefix of a Kubernetes name for a test.
func nameOf(t testing.TB) string {
	name := regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(t.Name()), "-")
	return strings.Trim(name[:min(len(name), 40)], "-") + "-"
}

// afterwards runs work when the test ends, with a new context because that of the test has ended by then.
func afterwards(t testing.TB, work func(context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := work(ctx); err != nil {
			t.Logf("clean up: %v", err)
		}
	})
}
