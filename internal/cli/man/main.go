// Command man writes the manual pages of the trigger to the folder that its argument names, for the archives of a
// release. Their date is SOURCE_DATE_EPOCH, or today.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/node-drainer/node-drainer/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write writes a page for each command to a folder that exists, named as in trigger-plan.1.
func write(folder string) error {
	header := &doc.GenManHeader{Section: "1", Source: "node-drainer", Manual: "node-drainer"}
	return doc.GenManTree(cli.Manual(), header, folder)
}
