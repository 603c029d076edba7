SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO          ?= go
TOOL        := $(GO) tool -modfile=tools/go.mod
HELM        := $(GO) tool -modfile=tools/charts/go.mod helm
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME    ?= 60s
IMAGE       ?= node-drainer:$(VERSION)
# The registry that the packed charts take their image from, its digest there, and where the charts are packed to.
REGISTRY    ?=
DIGEST      ?=
DIST        ?= dist
# Flags of the benchmark; BENCH=--help lists them.
BENCH       ?=
# Flags of the chaos test; CHAOS=--help lists them.
CHAOS       ?=
# Flags of the probe; PROBE=--help lists them.
PROBE       ?=
# The seed of the first generated world, and how many there are.
SEED        ?= 1
ORDER       ?= 1
# What make replay runs: TestWorlds, or TestJointWorlds for those with triggers.
WORLDS      ?= TestWorlds
SEEDS       ?= 1000
# How often a failed test of make test-e2e runs once more, alone.
RERUNS      ?= 0
# The commit that the agent of generated worlds is upgraded from.
FROM        ?=
# The folders of the charts, below charts.
CHARTS      := node-drainer node-drainer-handover
CONTAINER   ?= $(notdir $(firstword $(shell command -v buildah docker)))
# For another platform than this machine's, or for several.
PLATFORM    ?=
# More flags of the build, for example --build-arg BASE=... or --no-cache.
IMAGE_FLAGS ?=
# Stamped into the image, so that a commit gives the same bytes wherever and whenever it is built.
REVISION    ?= $(shell git rev-parse HEAD)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
CREATED      = $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%FT%TZ 2>/dev/null || date -u -r $(SOURCE_DATE_EPOCH) +%FT%TZ)
GOVULNCHECK ?= v1.9.0
# Written by npm when all packages of the site are installed.
SITE_MODULES := tools/site/node_modules/.package-lock.json

# Modules of their own, so that what they need does not mix with what the product needs.
NESTED := $(patsubst %/go.mod,%,$(wildcard tools/go.mod tools/*/go.mod test/alerts/go.mod \
	test/chart/operator/go.mod test/cluster/binaries/go.mod))
# What may be linked into the programs: licenses that ask for no more than a notice.
LICENSES := Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT
# Where the programs run; what is linked differs.
SYSTEMS  := linux darwin windows

# The packages with tests that need more than Go. The files of these tests begin with //go:build e2e.
E2E       = $(filter-out ./test/realnodes/,$(sort $(dir $(shell grep -rl --include='*_test.go' '^//go:build e2e$$' cmd examples internal pkg test | sed 's|^|./|'))))

IN_PROCESS = ./internal/% ./test/sim/%
run_e2e   = $(TOOL) gotestsum --format standard-quiet --rerun-fails=$(RERUNS) --rerun-fails-max-failures=3 \
	--packages='$(1)' -- -tags e2e -count=1 -p 1
SMOKE     = $(subst $(space),|,TestAgentCheck TestAgentsFeatures TestConditionSaysWhy TestDeadline \
	TestDemo TestDrain TestForgedMessage TestHandOver TestHelm TestHTTPHandOver TestKilledAndRestarted TestLaunch \
	TestNodegroupUpdate TestNotices TestPauseAutoscaler TestPodsThatReturn TestRefresh TestRollout \
	TestStandby TestStopped TestVolumes TestWatch TestWebhooksThatDeny)
# On one thread: timers of one bubble of testing/synctest that fire on two at once crash Go 1.26, since the threads share a
# context of the race detector (runtime/time.go: bubble.timers.raceCtx).
RACE      = -race -cpu 1
# These start no goroutines, are tools of the tests, or would take eight times as long.
WITHOUT_RACE = /(deploy|internal/(access|arch|cli/man|config|event|eventbridge|handover/redis/resp|migrate|report|text)|$\
	pkg/refresh|test/([b-r].*|sim|sim/[ou].*|trigger))$$

comma := ,
space := $() $()
# How each builder builds IMAGE. For several platforms buildah makes a manifest. Its platforms are built one after the
# other: built at once they would be added in any order, and the order is part of the digest.
image_flags    = --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg CREATED=$(CREATED) \
	--build-arg SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(IMAGE_FLAGS)
image_docker   = docker buildx build --tag $(IMAGE) $(addprefix --platform=,$(PLATFORM)) $(image_flags) .
buildah_build  = buildah build --timestamp $(SOURCE_DATE_EPOCH) --identity-label=false $(image_flags) \
	--build-arg BUILDPLATFORM=linux/$(shell buildah info --format '{{.host.arch}}')
image_buildah  = $(if $(findstring $(comma),$(PLATFORM)),$(image_manifest),$(buildah_build) --tag $(IMAGE) \
	$(addprefix --platform=,$(PLATFORM)) .)
image_manifest = buildah rmi $(IMAGE) 2>/dev/null || true; \
	for platform in $(subst $(comma),$(space),$(PLATFORM)); do \
		$(buildah_build) --manifest $(IMAGE) --platform $$platform .; \
	done

# How generated tests share their seeds.
on_all_cores = @cores=$$(getconf _NPROCESSORS_ONLN); failed=0; pids=; for i in $$(seq 0 $$((cores - 1))); do \
		GOGC=1000 GOMAXPROCS=1 $(1) -test.timeout 0 \
			-first $$(($(SEED) + i)) -seeds $$(($(SEEDS) - i)) -step $$cores & pids="$$pids $$!"; \
	done; for pid in $$pids; do wait $$pid || failed=1; done; exit $$failed


##@ Everyday

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the programs into bin/.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

# Without go vet, which make verify runs. make test-long has the rest of what -short leaves out.
.PHONY: quick
quick: ## Run what the change of this checkout can make fail, without the race detector and what takes long.
	@packages=$$(tools/reached.sh); [ -z "$$packages" ] || $(GO) test -short -vet=off $$packages

# More packages at a time than there are cores, because some tests wait for processes.
#
# Go reuses a result while neither the test nor a file of its module that it reads has changed. That is sound here: these
# tests run no program of this repository but themselves. test/alerts reads files outside of its module.
.PHONY: test
test: ## Run the tests that need nothing but Go, and some generated worlds and rollouts; most with the race detector.
	@$(MAKE) --no-print-directory -j 3 test-race test-no-race test-alerts

.PHONY: test-race test-no-race test-alerts
test-race:
	$(GO) test -p 3 $(RACE) $$($(GO) list ./... | grep -vE '$(WITHOUT_RACE)')
test-no-race:
	$(GO) test -p 2 -skip '^TestMutants$$' $$($(GO) list ./... | grep -E '$(WITHOUT_RACE)')
test-alerts:
	$(GO) -C test/alerts test -count=1 ./...

# With the race detector a world takes eight times as long. TestPlanOfAThousandGroups only counts calls, and would take
# three minutes.
.PHONY: test-long
test-long: sim rollouts ## Run SEEDS (1000) generated worlds and rollouts, some with the race detector, and with faults planted.
	$(GO) test -run '^TestMutants$$' ./test/sim ./test/rollouts
	$(GO) test $(RACE) -timeout 20m -short -skip '^TestMutants$$' ./test/sim ./test/rollouts
	$(GO) test $(RACE) -timeout 20m ./test/trigger -skip TestPlanOfAThousandGroups

# Not from Go's cache of results, which does not know what these tests run. One package at a time: their control planes,
# agents and builds would make each other late. With RERUNS a test that fails runs again when the others have ended, and
# the summary names it: these tests wait for real processes, which a busy machine makes late.
# The race detector is in the programs, and in the tests that run code of the product themselves: not in the simulated AWS.
.PHONY: test-e2e
test-e2e: deps-test cluster site-test ## Run what needs a control plane, Helm, the AWS CLI, buildah or Chromium; see cluster.
	$(call run_e2e,$(filter $(IN_PROCESS),$(E2E))) -race -timeout 45m
	$(call run_e2e,$(filter-out $(IN_PROCESS),$(E2E))) -timeout 45m

.PHONY: test-smoke
test-smoke: cluster ## Run the tests of test-e2e that SMOKE names: some for each part of the product.
	$(call run_e2e,./test/e2e ./test/demo) -timeout 15m -run '^($(SMOKE))$$'

.PHONY: test-real
test-real: deps-real ## Run the tests with nodes whose containers run, where they can: as root, with containerd.
	$(TOOL) gotestsum --format testname --rerun-fails=$(RERUNS) --rerun-fails-max-failures=3 \
		--packages=./test/realnodes -- -tags e2e -count=1 -timeout 45m -run '$(REAL)' $(addprefix -args -rate=,$(RATE))

.PHONY: test-all
test-all: test test-long test-e2e test-real ## Run all tests.

.PHONY: lint
lint: ## Run golangci-lint. The first run compiles it, for some minutes.
	$(TOOL) golangci-lint run ./...
	cd tools/release && $(GO) tool -modfile=../go.mod golangci-lint run ./...
	cd test/alerts && $(GO) tool -modfile=../../tools/go.mod golangci-lint run ./...

.PHONY: verify
verify: verify-tidy verify-format verify-generated verify-licenses verify-release vet arch lint vuln ## Check modules, format, lint, licenses and generated files.

.PHONY: demo
demo: bin/demo/demo ## Watch a node being drained: a real control plane (see cluster), a simulated AWS, the agent.
	@bin/demo/demo -agent bin/demo/agent

.PHONY: play
play: build ## Try the trigger: a simulated AWS with three groups and their nodes, until Ctrl-C; it prints what to try.
	@$(GO) run ./test/play

.PHONY: demo-replay
demo-replay: ## Watch a recorded demo, for half a minute. It needs nothing but Go.
	@$(GO) run ./test/demo/replay

##@ More

.PHONY: fuzz
fuzz: ## Fuzz each parser of what others write for FUZZTIME (60s).
	@grep -rl --include=*_test.go '^func Fuzz' internal pkg | while read -r file; do \
		$(GO) test -run '^$$' -fuzz . -fuzztime $(FUZZTIME) "./$$(dirname "$$file")"; \
	done

.PHONY: bench
bench: cluster ## Measure drains against kubectl and the limit, for 40 minutes; BENCH='-scenario one' for less.
	$(GO) run ./test/bench $(BENCH)

.PHONY: chaos
chaos: cluster ## Terminate 300 instances while everything fails, for four minutes; CHAOS='-seed 7' to repeat a run.
	$(GO) run ./test/chaos $(CHAOS)

.PHONY: probe
probe: ## Print the experiments that ask AWS what no document says; PROBE_RUN=1 PROBE='--group NAME ...' runs them.
	@tools/probe/probe.sh $(if $(PROBE_RUN),--run) $(PROBE)

# One process for each core: a world is nearly always one goroutine at a time. It collects garbage rarely, since a third of
# the time goes into that otherwise.
.PHONY: sim
sim: ## Run SEEDS (1000) generated worlds from SEED (1) on, in virtual time, on all cores, and a quarter as many with triggers.
	$(GO) test -c -o bin/sim.test ./test/sim
	$(call on_all_cores,bin/sim.test -test.run '^Test(Joint)?Worlds$$')

# Not vetted: go vet does not read an overlay.
.PHONY: sim-upgrade
sim-upgrade: ## Run SEEDS worlds in which the agent is upgraded from the commit FROM to this checkout, and rolled back.
	@test -n "$(FROM)" || { echo "make sim-upgrade: set FROM, such as v0.1.0" >&2; exit 1; }
	$(GO) run ./test/sim/upgrade $(FROM) bin/upgrade
	$(GO) test -c -vet=off -overlay bin/upgrade/overlay.json -o bin/upgrade.test ./test/sim
	$(call on_all_cores,bin/upgrade.test -test.run '^TestWorlds$$')

.PHONY: rollouts
rollouts: ## Run SEEDS (1000) generated rollouts from SEED (1) on, in virtual time, on all cores.
	$(GO) test -c -o bin/rollouts.test ./test/rollouts
	$(call on_all_cores,bin/rollouts.test -test.run '^TestRollouts$$')

# The standard library is compiled once more, with the changes of test/sim/overlay. That takes minutes the first time.
.PHONY: replay
replay: ## Run the world of SEED (1) the same way each time, and print it; ORDER (1) varies what happens at the same moment.
	$(GO) run ./test/sim/overlay "$$($(GO) env GOROOT)" bin/overlay
	$(if $(FROM),$(GO) run ./test/sim/upgrade $(FROM) bin/overlay bin/overlay/overlay.json)
	$(GO) test -c -vet=off -overlay bin/overlay/overlay.json -tags replay -o bin/replay.test ./test/sim
	GOGC=off GOMEMLIMIT=8GiB GOMAXPROCS=1 bin/replay.test -test.run '^$(WORLDS)$$' -test.v -test.timeout 0 \
		-first $(SEED) -seeds 1 -order $(ORDER) -print

.PHONY: image
image: ## Build the container image IMAGE with buildah or docker; PLATFORM=linux/amd64,linux/arm64 for both.
	@test -n "$(CONTAINER)" || { echo "make image: install buildah or docker" >&2; exit 1; }
	$(image_$(CONTAINER))

# The flags are those of .goreleaser.yaml.
.PHONY: sbom
sbom: build bin/tools/cyclonedx-gomod ## Write what is linked into the programs to dist/, as CycloneDX SBOMs.
	mkdir -p dist
	for program in agent handover trigger; do bin/tools/cyclonedx-gomod bin -json -std -noserial -notimestamp \
		-version=$(VERSION) -output=dist/$$program.cdx.json bin/$$program; done

.PHONY: notices
notices: bin/tools/go-licenses ## Collect the licenses of what is linked into bin/licenses, for the archives of a release.
	rm -rf bin/licenses
	for system in $(SYSTEMS); do \
		GOOS=$$system bin/tools/go-licenses save ./cmd/... --save_path=bin/licenses/$$system 2>/dev/null; \
		mkdir bin/licenses/$$system/go; cp "$$($(GO) env GOROOT)/LICENSE" bin/licenses/$$system/go/; \
	done

.PHONY: manuals
manuals: ## Write manual pages and shell completions of the trigger to bin/, for the archives of a release.
	rm -rf bin/man bin/completions && mkdir -p bin/man bin/completions
	$(GO) run ./internal/cli/man bin/man
	for shell in bash fish powershell zsh; do \
		$(GO) run ./cmd/trigger completion $$shell >bin/completions/trigger.$$shell; done

.PHONY: chart
chart: ## Check the Helm charts and pack them into dist/, with REGISTRY and DIGEST as those of their image.
	rm -rf "$(DIST)/charts" && mkdir -p "$(DIST)/charts"
	for chart in $(CHARTS); do \
		$(HELM) lint --strict charts/$$chart --values charts/$$chart/ci/least-values.yaml; \
		cp -R charts/$$chart "$(DIST)/charts"; \
		sed -e 's|^  registry: ""$$|  registry: "$(REGISTRY)"|' -e 's|^  digest: ""$$|  digest: "$(DIGEST)"|' \
			charts/$$chart/values.yaml >"$(DIST)/charts/$$chart/values.yaml"; \
		sed 's|REGISTRY/|$(REGISTRY)/|' charts/$$chart/Chart.yaml >"$(DIST)/charts/$$chart/Chart.yaml"; \
		$(HELM) package "$(DIST)/charts/$$chart" --destination "$(DIST)"; \
	done

.PHONY: manifests
manifests: chart ## Write dist/install.yaml: what the agent's chart installs, for those who do not use Helm.
	$(HELM) template node-drainer "$(DIST)/charts/node-drainer" --namespace kube-system --no-hooks --values deploy/install-values.yaml \
		$(if $(REGISTRY),,--set image.registry=YOUR-REGISTRY) >"$(DIST)/install.yaml"

.PHONY: verify-tag
verify-tag: ## Check that TAG (v1.2.3) can be released: the versions of the charts and of the changelog are those of the tag.
	@test -n "$(TAG)" || { echo "make verify-tag: set TAG, such as v0.1.0" >&2; exit 1; }
	@has() { grep -q "$$1" "$$2" || { echo "make verify-tag: $$2 has no line $$1" >&2; exit 1; }; }; \
	for chart in $(CHARTS); do \
		has '^version: $(TAG:v%=%)$$' charts/$$chart/Chart.yaml; \
		has '^appVersion: $(TAG:v%=%)$$' charts/$$chart/Chart.yaml; \
	done; \
	has '^## \[$(TAG:v%=%)\] - 20' CHANGELOG.md

.PHONY: site
site: $(SITE_MODULES) ## Build the documentation site into dist/site: main, and each release.
	tools/site/build.sh "$(DIST)/site"

.PHONY: site-serve
site-serve: $(SITE_MODULES) ## Show the pages of this checkout at http://localhost:5173/node-drainer/main/ while you edit them.
	cd tools/site && node node_modules/vitepress/bin/vitepress.js dev

.PHONY: site-test
site-test: deps-site $(SITE_MODULES) ## Check the documentation site in Chromium, and the spelling of the pages.
	node --test --test-reporter=spec tools/site/test/*.test.mjs
	cd tools/site && node node_modules/cspell/bin.mjs --no-progress --root ../.. --config cspell.json \
		"*.md" "docs/**/*.md" "charts/*/README.md" "deploy/terraform/README.md"

.PHONY: terraform
terraform: ## Check the Terraform module against the AWS provider, which is downloaded.
	@tool=$$(command -v tofu || command -v terraform) || \
		{ echo "make terraform: install OpenTofu (tofu) or Terraform" >&2; exit 1; }; \
	"$$tool" fmt -check -diff -recursive deploy/terraform; \
	for dir in deploy/terraform/examples/*; do \
		(set -x; "$$tool" -chdir="$$dir" init -backend=false -input=false && "$$tool" -chdir="$$dir" validate); \
	done

.PHONY: generate
generate: ## Write the generated files again.
	$(GO) generate ./...
	$(GO) -C test/alerts generate ./...

.PHONY: cluster
cluster: ## Find the control plane of the e2e tests, or download it, or build it where there are no downloads.
	$(GO) run ./test/cluster/cmd/cluster

# After a new version in test/cluster/binaries/go.mod.
.PHONY: sums
sums: ## Write test/cluster/sums.txt: the SHA-256 sums that dl.k8s.io and GitHub publish. It needs the network.
	$(GO) run ./test/cluster/cmd/cluster -sums >test/cluster/sums.txt.new || { rm test/cluster/sums.txt.new; exit 1; }
	mv test/cluster/sums.txt.new test/cluster/sums.txt

.PHONY: demo-record
demo-record: bin/demo/demo ## Record the demo for demo-replay and the pictures, after a change of its output.
	bin/demo/demo -agent bin/demo/agent -record test/demo/replay

.PHONY: clean
clean: ## Remove what was built here; the control plane stays in the user's cache.
	rm -rf bin dist

##@ Parts of the above

.PHONY: deps-test
deps-test: deps-site ## Install what make test-e2e runs: the AWS CLI, buildah, Redis, Chromium, and Node.js with npm.
	@missing=; test -x /usr/bin/aws || missing=awscli; command -v buildah >/dev/null || missing="$$missing buildah"; \
	command -v redis-server redis-check-rdb >/dev/null || missing="$$missing redis-tools"; \
	command -v jq >/dev/null || missing="$$missing jq"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y $$missing || { apt-get update && apt-get install -y $$missing; } || true; \
	fi; \
	if [ ! -x /usr/bin/aws ] && ! aws --version >/dev/null 2>&1; then \
		echo "make test-e2e: the tests run the AWS CLI (aws), which is not on PATH: apt-get install awscli" >&2; \
		exit 1; \
	fi; \
	if ! command -v redis-server redis-check-rdb >/dev/null; then \
		echo "make test-e2e: the tests run Redis, which is not on PATH: apt-get install redis-tools" >&2; \
		exit 1; \
	fi

.PHONY: deps-real
deps-real: ## Install what make test-real runs: containerd, runc, the CNI plugins, ip, nft, dbus-daemon and Redis.
	@has() { for program; do command -v "$$program" >/dev/null || return; done; }; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		! { has containerd runc ip nft dbus-daemon redis-check-rdb && test -x /usr/lib/cni/bridge; }; then \
		packages="containerd runc containernetworking-plugins iproute2 nftables dbus-daemon redis-tools"; \
		apt-get install -y $$packages || { apt-get update && apt-get install -y $$packages; } || true; \
	fi

# With the agent, in one invocation, so that packages of both are compiled once, and without optimizations and debugging
# information, which takes a third less.
.PHONY: bin/demo/demo
bin/demo/demo:
	@echo "Compiling the agent and the demo: a minute or two the first time"
	@CGO_ENABLED=0 $(GO) build -trimpath -gcflags='all=-N -l -dwarf=false' -ldflags='-s -w' -o bin/demo/ ./cmd/agent ./test/demo

.PHONY: deps-site
deps-site:
	@missing=; command -v chromium google-chrome >/dev/null || missing=chromium; \
	command -v node >/dev/null || missing="$$missing nodejs"; command -v npm >/dev/null || missing="$$missing npm"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y $$missing || { apt-get update && apt-get install -y $$missing; } || true; \
	fi; \
	if ! command -v chromium google-chrome >/dev/null || ! command -v node >/dev/null || ! command -v npm >/dev/null; then \
		echo "make site-test: the tests run Chromium, and Node.js 20 with npm: apt-get install chromium nodejs npm" >&2; \
		exit 1; \
	fi

# Without the Go files that one of the packages has, which are not ours to format and check.
$(SITE_MODULES): tools/site/package.json tools/site/package-lock.json
	npm ci --prefix tools/site --ignore-scripts --no-audit --no-fund
	find tools/site/node_modules -name '*.go' -delete
	touch $@

.PHONY: arch
arch: ## Hold the import table.
	$(GO) test ./internal/arch

.PHONY: vet
vet: ## Run go vet.
	$(GO) vet -tags e2e ./...

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

# Compares all files before and after, so that uncommitted work does not matter, and no list of generated files is
# needed.
.PHONY: verify-generated
verify-generated:
	@old=$$(mktemp) new=$$(mktemp); trap 'rm -f "$$old" "$$new"' EXIT; \
	sums() { git ls-files -z --cached --others --exclude-standard | xargs -0 sha256sum 2>/dev/null || true; }; \
	sums >"$$old"; $(MAKE) --no-print-directory generate; sums >"$$new"; \
	diff "$$old" "$$new" >/dev/null || { diff "$$old" "$$new" | sed -n 's/^> [0-9a-f]*  /stale, written again, commit it: /p' >&2; exit 1; }

.PHONY: verify-licenses
verify-licenses: bin/tools/go-licenses
	@for system in $(SYSTEMS); do echo "licenses of what is linked on $$system: $(LICENSES)"; \
		log=$$(GOOS=$$system bin/tools/go-licenses check ./cmd/... --allowed_licenses=$(LICENSES) 2>&1) || \
			{ echo "$$log" >&2; exit 1; }; \
	done

.PHONY: verify-release
verify-release:
	$(GO) tool -modfile=tools/actionlint/go.mod actionlint
	$(GO) -C tools/release test -count=1 ./...

# Built first, because GOOS changes what it reports, and go tool would build it for that GOOS.
bin/tools/go-licenses: tools/licenses/go.mod tools/licenses/go.sum
	$(GO) build -modfile=tools/licenses/go.mod -o $@ github.com/google/go-licenses/v2

bin/tools/cyclonedx-gomod: tools/sbom/go.mod tools/sbom/go.sum
	$(GO) build -modfile=tools/sbom/go.mod -o $@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

# govulncheck exits with 3 when it has found something. With any other code it could not be installed, or could not reach
# its database. The hosted CI sets VULN=required, so that it is never skipped there.
.PHONY: vuln
vuln: ## Look for known vulnerabilities, where their database can be reached.
	@echo "govulncheck $(GOVULNCHECK)"; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	{ GOBIN="$(CURDIR)/bin/tools" $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) && \
		bin/tools/govulncheck ./...; } >"$$log" 2>&1 || status=$$?; \
	if [ $$status = 0 ]; then tail -n 1 "$$log"; \
	elif [ $$status = 3 ] || [ "$${VULN:-}" = required ]; then cat "$$log" >&2; exit 1; \
	else echo "govulncheck skipped: it or its database cannot be reached from here"; fi
