//go:build e2e

package redis_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/docs"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// documented returns the scripts of a ConfigMap in a file of examples/redis.
func documented(t *testing.T, file, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs.Root(t), "examples", "redis", file))
	if err != nil {
		t.Fatal(err)
	}
	for object := range strings.SplitSeq(string(text), "\n---\n") {
		var one corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(object), &one); err == nil && one.Kind == "ConfigMap" && one.Name == name {
			return one.Data
		}
	}
	t.Fatalf("%s has no ConfigMap %s", file, name)
	return nil
}

// TestDocumentedSentinel runs the scripts of the documentation: the leader hands over, and its pod joins as a replica
// when it is back; a sentinel that has lost its volume watches the same leader.
func TestDocumentedSentinel(t *testing.T) {
	t.Parallel()
	scripts := documented(t, "sentinel.yaml", "redis")
	for name, script := range scripts {
		scripts[name] = strings.ReplaceAll(script, "shop", redisserver.Master)
	}
	group, err := redisserver.NewScripted(t.Context(), redisserver.Scripts{
		Server: scripts["redis.sh"], Sentinel: scripts["sentinel.sh"],
	})
	f := newFixture(t, group, err)
	w := redisserver.Write(f.ctx, redisserver.StickyClient(f.Named), "sticky:")
	f.check(w.WaitAcknowledged(f.ctx))
	leader := f.Leader(f.ctx)
	if answer := f.release(leader); answer.Outcome != handover.HandedOver {
		t.Fatalf("got %+v", answer)
	}
	f.check(leader.Move(f.ctx, f.NewIP()))
	f.check(leader.WaitRole(f.ctx, "slave"))
	f.check(f.WaitInSync(f.ctx))
	f.check(f.Sentinels[0].Replace(f.ctx, f.NewIP()))
	f.reconcile(f.Leader(f.ctx))
	f.stop("sticky", w, redisserver.MaxGap)
}

// TestDocumentedCluster is the same for a cluster: a pod that moves is known by its new address.
func TestDocumentedCluster(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewScripted(t.Context(), redisserver.Scripts{Server: documented(t, "cluster.yaml", "redis-cluster")["redis.sh"]})
	f := newFixture(t, group, err)
	for _, s := range f.Leaders(f.ctx) {
		if answer := f.release(s); answer.Outcome != handover.HandedOver {
			t.Fatalf("got %+v", answer)
		}
		f.check(s.Move(f.ctx, f.NewIP()))
		f.check(s.WaitRole(f.ctx, "slave"))
		f.check(f.WaitCluster(f.ctx))
	}
}
