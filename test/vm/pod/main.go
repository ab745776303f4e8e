// Pod is the one program in the lab's container images: it pauses, serves HTTP,
// and answers what a test asks through exec.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pod:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{"pause"}
	}
	switch args[0] {
	case "pause":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
		<-stop
		return nil
	case "serve":
		return serve(args[1:])
	case "echo":
		fmt.Println(args[1:])
		return nil
	case "get":
		return get(args[1])
	case "cat":
		for _, name := range args[1:] {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			os.Stdout.Write(b)
		}
		return nil
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// get prints the status of an HTTP answer.
func get(url string) error {
	client := http.Client{Timeout: 10 * time.Second}
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	fmt.Println(r.Status)
	return nil
}

// serve answers on every given address and logs each request.
func serve(addrs []string) error {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Printf("request %s from %s", r.URL.Path, r.RemoteAddr)
		fmt.Fprintln(w, "hello from the pod")
	})
	failed := make(chan error)
	for _, addr := range addrs {
		log.Printf("serving on %s", addr)
		go func() { failed <- http.ListenAndServe(addr, handler) }()
	}
	return <-failed
}
