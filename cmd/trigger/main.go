// Command trigger replaces outdated instances of EC2 Auto Scaling groups, and follows that to its end.
package main

import (
	"os"

	"github.com/node-drainer/node-drainer/internal/cli"
)

// version is stamped by the build.
var version = "dev"

func main() { os.Exit(cli.Main(version, os.Exit)) }
