package realnodes

import (
	"os"
	"path/filepath"
)

// isolatedVariable is set in the namespaces, to the folder that is removed afterwards.
const isolatedVariable = "NODE_DRAINER_ISOLATED"

// Isolated returns the folder of the namespaces in which this process runs, empty if it runs in none.
func Isolated() string { return os.Getenv(isolatedVariable) }

// cgroupOf returns the name of the cgroups of all pods.
func cgroupOf(dir string) string { return filepath.Base(dir) }
