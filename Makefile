# Everything a person does here, by name. `make help` lists it.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X github.com/drainproof/drainproof/internal/cli.version=$(VERSION)
# The same flags everywhere, so that the same source gives the same bytes.
GOBUILD  := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'
# Continuous integration downloads nothing but Go modules and packages.
DEMO_FROM ?= $(if $(CI),build,auto)

.DEFAULT_GOAL := help
.PHONY: help build build-all demo test test-unit test-e2e lint bench servers fmt update bpf clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/drainproof for this machine
	$(GOBUILD) -o bin/drainproof ./cmd/drainproof

build-all: ## Build for every supported platform into bin/
	@for t in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
	  echo "bin/drainproof-$${t%/*}-$${t#*/}"; \
	  GOOS=$${t%/*} GOARCH=$${t#*/} $(GOBUILD) -o bin/drainproof-$${t%/*}-$${t#*/} ./cmd/drainproof || exit 1; \
	done

demo: build ## A real cluster, twenty connections, one deleted Pod; leaves out/demo/record.json
	@bin/drainproof demo --install-packages --kubernetes-from $(DEMO_FROM) --out out/demo --force
	@chown -R --reference=. bin out 2>/dev/null || true # with sudo: they belong to whom the clone belongs

test: ## Everything: installs what is missing (root on Debian or Ubuntu), unit and end-to-end tests; lists what was skipped
	@scripts/test.sh all

test-unit: ## What needs neither root nor a cluster
	@scripts/test.sh unit

test-e2e: ## The end-to-end tests alone, on the local cluster
	@scripts/test.sh e2e

lint: ## Formatting, vet, staticcheck and govulncheck, pinned in tools/go.mod
	@scripts/lint.sh

bench: ## The benchmarks behind every claim on performance
	@scripts/bench.sh

servers: build ## Measure what a rolling restart of real servers loses, as docs/servers.md; the records go to out/servers
	@KUBERNETES_FROM=$(DEMO_FROM) servers/measure.sh out/servers

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

update: ## Write again what is generated: goldens, the table of rights, the tables of docs/results.md, docs/rules.md
	$(GO) test -p 1 ./internal/render/... ./internal/kube ./internal/audit/rules ./internal/audit/fix -update
	$(GO) test ./internal/cli -run Page -update

bpf: ## Compile the agent's eBPF programs again, after a change of their source (needs clang and llvm)
	@scripts/bpf.sh

clean: ## Remove bin/ and out/
	rm -rf bin out
