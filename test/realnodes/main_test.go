//go:build e2e

package realnodes_test

import (
	"os"
	"testing"

	"github.com/node-drainer/node-drainer/test/realnodes"
)

func TestMain(m *testing.M) { os.Exit(realnodes.Main(m)) }
