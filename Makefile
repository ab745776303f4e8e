# make demo   a real control plane and a guest on this machine, the shipped
#             binary in it, the node Ready
# make test   every test this machine can run; what is skipped says why

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
export CGO_ENABLED := 0
export PATH := $(PATH):/usr/local/go/bin
GO ?= go
PACKAGES := ./cmd/... ./internal/... ./examples/...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build demo test test-unit test-vm test-vm-all lint setup fuzz clean

build: bin/nodeagent

bin/nodeagent: $(shell find cmd internal examples -type f) go.mod go.sum
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $@ ./cmd/nodeagent

setup:
	.ci/setup

demo: setup
	$(MAKE) build
	$(GO) run ./test/vm/cmd/lab demo

test: setup
	$(MAKE) lint test-unit
	$(MAKE) test-vm

lint:
	@test -z "$$(gofmt -l cmd internal examples test/vm)" || { gofmt -l cmd internal examples test/vm; echo "gofmt: run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# Unit tests, engine laws, CLI scripts and the fake-host suite.
test-unit:
	$(GO) test $(PACKAGES)

# A representative set on real guests. What the guests are made of is built
# first: the limit is for the tests.
test-vm: build
	NODEAGENT_LAB=1 $(GO) test -v -count=1 -timeout 60m -run '^$$' ./test/vm
	NODEAGENT_LAB=1 $(GO) test -v -count=1 -timeout 40m ./test/vm

# The whole matrix.
test-vm-all: build
	NODEAGENT_LAB=all $(GO) test -v -count=1 -timeout 60m -run '^$$' ./test/vm
	NODEAGENT_LAB=all $(GO) test -v -count=1 -timeout 5h ./test/vm

# Every fuzz target for FUZZTIME each, one after the other (in full: FUZZTIME=5m).
# What makes one fail is kept below testdata/fuzz of its package, where every
# later test run tries it again.
FUZZTIME ?= 10s
fuzz:
	@for p in $$($(GO) list $(PACKAGES)); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -parallel 2 $$p || exit 1; \
		done; \
	done

clean:
	rm -rf bin
