package kube

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestClient: no client is limited by itself, and each asks for what is cheaper to read, under its name.
func TestClient(t *testing.T) {
	cfg := &rest.Config{Host: "https://localhost"}
	if _, err := Client(cfg, "node-drainer-x/1"); err != nil {
		t.Fatal(err)
	}
	if cfg.QPS >= 0 || !strings.Contains(cfg.ContentType, "protobuf") || !strings.HasSuffix(cfg.UserAgent, " node-drainer-x/1") {
		t.Errorf("got %v, %s, %s", cfg.QPS, cfg.ContentType, cfg.UserAgent)
	}
}
