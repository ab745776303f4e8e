package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// sourceDir returns test/vm of the checkout that this package was built from.
func sourceDir() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if ok && filepath.IsAbs(file) {
		if _, err := os.Stat(file); err == nil {
			return filepath.Dir(filepath.Dir(file)), nil
		}
	}
	// Built with -trimpath: look upwards from the working directory.
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test/vm/kube/go.mod")); err == nil {
			return filepath.Join(dir, "test/vm"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("test/vm isn't above %s: run the lab from the checkout", dir)
		}
		dir = filepath.Dir(dir)
	}
}

// fileKeys returns the contents of files, as part of a cache key.
func fileKeys(paths ...string) ([]string, error) {
	var keys []string
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		keys = append(keys, string(b))
	}
	return keys, nil
}
