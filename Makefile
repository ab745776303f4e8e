# make demo   a real control plane and a guest on this machine, the shipped
#             binary in it, the node Ready
# make test   every test this machine can run; what is skipped says why

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
export CGO_ENABLED := 0
export PATH := $(PATH):/usr/local/go/bin
GO ?= go
PACKAGES := ./cmd/... ./internal/... ./examples/...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build rpm demo test test-unit test-vm test-vm-all lint setup fuzz clean

build: bin/nodeagent

bin/nodeagent: $(shell find cmd internal examples packaging -name '*.rpm' -prune -o -type f -print) go.mod go.sum
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $@ ./cmd/nodeagent

# bin/nodeagent-VERSION-1.ARCH.rpm. Its builder is a module of its own, so that
# the product's go.mod stays small. Versions count up also between tags.
RPM_VERSION := $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/./g' | grep . || echo "0.0.$$(git rev-list --count HEAD).g$$(git rev-parse --short HEAD)")
RPM_ARCH := $(shell $(GO) env GOARCH | sed 's/amd64/x86_64/; s/arm64/aarch64/')
RPM := bin/nodeagent-$(RPM_VERSION)-1.$(RPM_ARCH).rpm
rpm: bin/nodeagent
	mkdir -p bin/rpm
	sed 's,/usr/local/bin/nodeagent,/usr/bin/nodeagent,' packaging/nodeagent.service >bin/rpm/nodeagent.service
	for shell in bash zsh fish; do bin/nodeagent completion $$shell >bin/rpm/nodeagent.$$shell || exit 1; done
	$(GO) -C packaging/rpm build -o ../../bin/rpm/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	{ cat packaging/rpm/nfpm.yaml; for f in README.md docs/*.md examples/*.yaml; do \
		echo "- {src: $$f, dst: /usr/share/doc/nodeagent/$${f#docs/}, type: doc, file_info: {mode: 0644}}"; done; } >bin/rpm/nfpm.yaml
	GOARCH=$$($(GO) env GOARCH) RPM_VERSION=$(RPM_VERSION) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		bin/rpm/nfpm package --config bin/rpm/nfpm.yaml --packager rpm --target $(RPM)
	! command -v rpmlint >/dev/null || rpmlint --config packaging/rpm/rpmlint.toml $(RPM)

setup:
	.ci/setup

demo: setup
	$(MAKE) build
	$(GO) run ./test/vm/cmd/lab demo

test: setup
	$(MAKE) lint test-unit
	$(MAKE) test-vm

lint:
	@test -z "$$(gofmt -l cmd internal examples packaging test/vm)" || { gofmt -l cmd internal examples packaging test/vm; echo "gofmt: run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# Unit tests, engine laws, CLI scripts and the fake-host suite.
test-unit:
	$(GO) test $(PACKAGES)

# A representative set on real guests. What the guests are made of is built
# first: the limit is for the tests.
test-vm: build rpm
	NODEAGENT_LAB=1 $(GO) test -v -count=1 -timeout 60m -run '^$$' ./test/vm
	NODEAGENT_LAB=1 $(GO) test -v -count=1 -timeout 40m ./test/vm

# The whole matrix.
test-vm-all: build rpm
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
