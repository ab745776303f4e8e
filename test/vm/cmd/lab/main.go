// Lab drives the real-guest lab by hand.
//
//	lab prepare   build everything into the cache
package main

import (
	"context"
	"fmt"
	"os"

	"nodeagent/test/vm/lab"
)

func main() {
	a, err := lab.Prepare(context.Background(), lab.NewLog(os.Stderr), lab.Rocky9)
	fmt.Println(a, err)
	if err != nil {
		os.Exit(1)
	}
}
