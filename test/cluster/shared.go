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
	rest    func() // ends what is done beside the tests
}

// Main is what TestMain of a package returns to os.Exit. It makes sure of the binaries before the
// first test, since a build would not fit into the tests' time, runs the tests, and closes the control
// plane if one of them asked for it. What is to be judged of it when all tests have passed, last does.
func Main(m *testing.M, last ...func(*Cluster) error) int {
	flag.Parse()
	if list := flag.Lookup("test.list"); list == nil || list.Value.String() == "" {
		if _, err := Binaries(context.Background(), os.Stderr); err != nil {
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
	if shared.rest != nil {
		shared.rest()
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
			shared.rest = shared.cluster.remindOften()
		}
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// Namespace makes a namespace for one test, ready to take pods. It is deleted when the test ends; the
// test does not wait for that.
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

// nameOf makes of a test's name the beginning of a Kubernetes name.
func nameOf(t testing.TB) string {
	name := regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(t.Name()), "-")
	return strings.Trim(name[:min(len(name), 40)], "-") + "-"
}

// afterwards runs work when the test ends, with a context of its own: the test's has ended then.
func afterwards(t testing.TB, work func(context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := work(ctx); err != nil {
			t.Logf("clean up: %v", err)
		}
	})
}
