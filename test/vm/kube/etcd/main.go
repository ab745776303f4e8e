// Command etcd is the etcd server built from its Go module, so that the lab
// needs no prebuilt release.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
