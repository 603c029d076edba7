// Command etcd is etcd itself: its own main package lives in a module that others cannot require.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
