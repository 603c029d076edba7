SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO          ?= go
TOOL        := $(GO) tool -modfile=tools/go.mod
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME    ?= 60s
IMAGE       ?= node-drainer:$(VERSION)
# Flags of the benchmark; BENCH=--help tells them.
BENCH       ?=
# Flags of the chaos test; CHAOS=--help tells them.
CHAOS       ?=
CONTAINER   ?= $(notdir $(firstword $(shell command -v buildah docker)))
GOVULNCHECK ?= v1.9.0

# Modules of their own, so that what they need does not mix with what the product needs.
NESTED := tools $(patsubst %/go.mod,%,$(wildcard test/cluster/binaries/*/go.mod))
# Written by make generate from the source; checked in.
GENERATED := docs/configuration.md docs/trigger-flags.md

# $(call need,PATH) stops a target whose ground is not laid yet.
need = @test -e $(1) || { echo "make $@: $(1) is not in this repository yet" >&2; exit 1; }

##@ Everyday

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the programs into bin/.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

# Not from Go's cache of results, which does not know that some tests build and run the programs.
.PHONY: test
test: deps-test cluster ## Run all tests, with the race detector. The first run builds a control plane.
	$(GO) test -race -count=1 -p 2 -timeout 20m ./...

.PHONY: lint
lint: ## Run golangci-lint. The first run compiles it, for some minutes.
	$(TOOL) golangci-lint run ./...

.PHONY: verify
verify: verify-tidy verify-format verify-generated vet arch lint vuln ## Check all that is no test: modules, format, lint, generated files.

.PHONY: demo
demo: ## Drain a node before your eyes: a real control plane, a simulated AWS, the agent.
	@$(GO) run ./test/demo

##@ More

.PHONY: fuzz
fuzz: ## Fuzz the parser of notifications for FUZZTIME (60s).
	$(GO) test -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZTIME) ./pkg/event

.PHONY: bench
bench: cluster ## Measure drains against kubectl and the limit, for 20 minutes; BENCH='-scenario one' for less.
	$(GO) run ./test/bench $(BENCH)

.PHONY: chaos
chaos: cluster ## Terminate 300 instances while everything fails, for four minutes; CHAOS='-seed 7' to repeat a run.
	$(GO) run ./test/chaos $(CHAOS)

.PHONY: image
image: ## Build the container image IMAGE with buildah or docker.
	@test -n "$(CONTAINER)" || { echo "make image: install buildah or docker" >&2; exit 1; }
	$(CONTAINER) build --build-arg VERSION=$(VERSION) --tag $(IMAGE) --file Dockerfile .

.PHONY: chart
chart: ## Check the Helm chart and pack it into dist/.
	$(call need,charts/node-drainer)
	@command -v helm >/dev/null || { echo "make chart: install helm" >&2; exit 1; }
	helm lint charts/node-drainer
	helm package charts/node-drainer --destination dist

.PHONY: generate
generate: ## Write the generated files anew.
	$(GO) generate ./...

.PHONY: cluster
cluster: ## Build the control plane that tests and demo run (20 minutes the first time), or find it.
	$(GO) run ./test/cluster/cmd/cluster build

.PHONY: clean
clean: ## Remove what was built here; the control plane stays in the user's cache.
	rm -rf bin dist

##@ Parts of the above

.PHONY: deps-test
deps-test: ## Install what tests run beside Go: the AWS CLI.
	@if [ -x /usr/bin/aws ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y awscli || { apt-get update && apt-get install -y awscli; } || true; \
	fi; \
	if [ ! -x /usr/bin/aws ] && ! aws --version >/dev/null 2>&1; then \
		echo "make test: the tests run the AWS CLI (aws), which is not on PATH: apt-get install awscli" >&2; \
		exit 1; \
	fi

.PHONY: arch
arch: ## Hold the import table.
	$(GO) test ./internal/arch

.PHONY: vet
vet: ## Run go vet.
	$(GO) vet ./...

.PHONY: format
format: ## Format all Go files and sort their imports.
	$(TOOL) golangci-lint fmt ./...

.PHONY: verify-tidy
verify-tidy:
	$(GO) mod tidy -diff
	@for module in $(NESTED); do (set -x; $(GO) -C $$module mod tidy -diff); done

.PHONY: verify-format
verify-format:
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [ -n "$$unformatted" ]; then printf 'not formatted, run make format:\n%s\n' "$$unformatted" >&2; exit 1; fi

# Compares with the files as they lie here, so that it does not mind work that is not committed.
.PHONY: verify-generated
verify-generated:
	@old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
	for file in $(GENERATED); do mkdir -p "$$old/$${file%/*}"; \
		if [ -e "$$file" ]; then cp "$$file" "$$old/$$file"; fi; done; \
	$(MAKE) --no-print-directory generate; \
	for file in $(GENERATED); do \
		diff -uN "$$old/$$file" "$$file" || { echo "$$file was stale: it is written anew, commit it" >&2; exit 1; }; \
	done

# govulncheck ends with 3 when it has found something; any other failure is that it cannot be had, or cannot reach its
# database. The hosted CI sets VULN=required, so that there it is never skipped.
.PHONY: vuln
vuln: ## Look for known vulnerabilities, where their database can be reached.
	@echo "govulncheck $(GOVULNCHECK)"; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	{ GOBIN="$(CURDIR)/bin/tools" $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) && \
		bin/tools/govulncheck ./...; } >"$$log" 2>&1 || status=$$?; \
	if [ $$status = 0 ]; then tail -n 1 "$$log"; \
	elif [ $$status = 3 ] || [ "$${VULN:-}" = required ]; then cat "$$log" >&2; exit 1; \
	else echo "govulncheck skipped: it or its database cannot be reached from here"; fi
