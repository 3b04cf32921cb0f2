# acphost. "make help" lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# Tools, pinned. Each is installed into .tools/bin by the target of its name.
BUF                := @bufbuild/buf@1.71.0
PROTOC_GEN_GO      := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GO_GRPC := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
GOLANGCI_LINT      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GRPCURL            := github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4
GOTESTSUM          := gotest.tools/gotestsum@v1.13.0
ACTIONLINT         := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

TOOLS   := $(CURDIR)/.tools/bin
VERSION ?= $(shell git describe --tags --match "v[0-9]*" --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# A higher GOGC for compilers only, not for the tests: compilers are short-lived, so garbage collection does not pay.
COMPILER := "-toolexec=env GOGC=400"
ifeq (,$(findstring -toolexec,$(GOFLAGS)))
export GOFLAGS += $(COMPILER)
endif
# The build flags of everything except tests with the race detector, so that they share one build cache.
PLAIN   := CGO_ENABLED=0 GOFLAGS='-trimpath $(COMPILER)'
NPM_INSTALL := npm install --no-audit --no-fund --loglevel=error --prefix

# The modules of the workspace.
MODULES := . internal proto sdk examples/echo examples/businesshours examples/plainfs examples/plainterm examples/policy-opa
# Patterns of all packages.
ALL     := $(MODULES:%=./%/...)
# The duration of each fuzz target in "make fuzz".
FUZZTIME ?= 5s
# The number of messages that "make barrage" sends, and the seed of its random numbers.
FRAMES ?= 1000000
SEED   ?= 1
# The folders with fuzz targets.
FUZZED  = git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- build

.PHONY: build
build: ## build every binary into bin/
	@mkdir -p bin
	$(PLAIN) go build -ldflags '$(LDFLAGS)' -o bin/ \
		./services/supervisor/cmd/acphost ./services/fsd ./services/termd ./services/permd ./services/gatewayd \
		./sdk/cmd/acphost-conformance ./examples/demoagent ./examples/echo ./examples/businesshours ./examples/plainfs ./examples/plainterm ./examples/policy-opa

.PHONY: demo
demo: build ## build, and play one turn of a scripted agent
	@bin/acphost demo

.PHONY: cross
cross: ## check from source that everything compiles for the other system (macOS or Linux)
	$(PLAIN) go run ./internal/tools/typecheck -os darwin -arch arm64 $(ALL)

.PHONY: cross-build
cross-build: ## build and vet for the other system, including all imported packages
	$(PLAIN) GOOS=darwin GOARCH=arm64 go build -o /dev/null ./services/supervisor/cmd/acphost
	$(PLAIN) GOOS=darwin GOARCH=arm64 go vet $(ALL)

# --- test

# A failed test is repeated at most twice. If it passes then, it is flaky: "make test" prints it as FLAKY at the end, and
# passes. Attacks and fuzz targets are not repeated, because a protection that fails once has failed.
RUNTESTS := $(CURDIR)/bin/runtests -gotestsum $(TOOLS)/gotestsum
# The time limit for the tests of one package. Timeouts within tests scale with the machine's load.
TESTTIME ?= 60m
# With -trimpath, all clones of the repository share compiled packages. Test results are not cached.
RACE     := -race -trimpath -vet=off -count=1
# The end-to-end tests, by subject.
E2E      := ./test/cli ./test/console ./test/docs ./test/gateway ./test/handlers ./test/headless ./test/policy ./test/protocol ./test/terminal
# Packages that are tested without the race detector, which makes tests several times slower: the tests of E2E start the
# programs of bin/, which are built without it; the shell parser and the policy start no goroutines; the other packages
# read the repository.
UNRACED  := $(E2E) ./test/pages ./internal/shell ./internal/tools/typecheck ./services/permd/internal/policy
# By default, each process with the race detector sleeps for a second before it exits.
export GORACE ?= atexit_sleep_ms=0

.PHONY: bin/runtests
bin/runtests: $(TOOLS)/gotestsum
	@$(PLAIN) go build -o $@ ./internal/tools/runtests

.PHONY: test
test: test-deps build bin/runtests ## install what the tests need and run them all, packages with the race detector (lint vets); prints the slowest packages and the flaky tests
	@rm -rf bin/tests bin/flaky.txt
	@status=0; $(MAKE) test-all || status=$$?; $(RUNTESTS) -report; exit $$status

.PHONY: test-all
test-all: # two runs in parallel; four end-to-end tests of a package in parallel, because they wait most of the time
	@mkdir -p bin/tests; export ACPHOST_BIN=$(CURDIR)/bin; unraced='$(UNRACED)'; \
	packages=$$(go list ./test/... $(ALL) | awk '!seen[$$0]++' | grep -vxFf <(go list $$unraced) | grep -vE '/test/(adversary|commands|day|pod)'); \
	$(PLAIN) $(RUNTESTS) -name unraced -packages "$$unraced" -- -vet=off -count=1 -timeout $(TESTTIME) -parallel 4 >bin/tests/unraced.out 2>&1 & \
	status=0; $(RUNTESTS) -name packages -packages "$$(echo $$packages)" -- $(RACE) -timeout $(TESTTIME) -p 2 || status=$$?; \
	wait $$! || status=$$?; cat bin/tests/unraced.out; exit $$status
	cd examples/policy-node && npm test --silent -- --test-reporter=dot
	node --test --test-reporter=dot internal/tools/release/npm/acphost.test.js
	cd clients/typescript && npm test --silent
	@$(MAKE) adversary pod deploy-check

.PHONY: test-loaded
test-loaded: ## run all tests beside 12 processes that are always busy: they must pass there too; without the race detector, to save time
	@busy=(); trap 'kill "$${busy[@]}" 2>/dev/null' EXIT; \
	for i in {1..12}; do timeout 3h sh -c 'while :; do :; done' & busy+=($$!); done; \
	CGO_ENABLED=0 $(MAKE) test TESTTIME=90m RACE='$(filter-out -race,$(RACE))'

.PHONY: adversary
adversary: build ## attack acphost with hostile agents and command lines; as root, a second time with the agents as an unprivileged user
	@begun=$$SECONDS; ACPHOST_BIN=$(CURDIR)/bin $(PLAIN) go test -vet=off -count=1 -timeout $(TESTTIME) -parallel 4 ./test/adversary/... ./test/commands; echo "adversary: $$((SECONDS - begun)) s"

.PHONY: pod
pod: images bin/runtests ## run the Pod of deploy/kubernetes without a cluster, with its containers under bubblewrap; as root, on Linux
	export ACPHOST_BIN=$(CURDIR)/bin; $(PLAIN) $(RUNTESTS) -name pod -packages ./test/pod -- -vet=off -count=1 -timeout $(TESTTIME)

.PHONY: deploy-check
deploy-check: ## parse the files in deploy/ as strictly as their consumers: Kubernetes, Docker Compose, systemd
	cd test/deploy && GOWORK=off go mod download sigs.k8s.io/kubectl-validate@v0.0.4 && GOWORK=off $(PLAIN) go test -vet=off -count=1 ./...

.PHONY: metrics-check
metrics-check: build ## test the alerts with promtool, and run every query of deploy/ in Prometheus with a running acphost; unpacks Debian's prometheus into .tools/ if it is missing
	at=$$(test/prometheus.sh) && PATH="$$at:$$PATH" ACPHOST_BIN=$(CURDIR)/bin $(PLAIN) go test -vet=off -count=1 -timeout $(TESTTIME) -run TestMetrics ./test/headless

.PHONY: pod-bench
pod-bench: images ## measure the Pod of deploy/kubernetes: startup, a turn compared with a single process tree, memory (docs/scale.md)
	ACPHOST_BIN=$(CURDIR)/bin $(PLAIN) go test -vet=off -count=1 -timeout 10m -run '^$$' -bench . -benchtime 30x ./test/pod

.PHONY: commands
commands: build ## test the ready-made policies with the lists of command lines, and print the results
	@ACPHOST_BIN=$(CURDIR)/bin $(PLAIN) go test -vet=off -count=1 -v -run TestReadyPolicies ./test/commands | grep -vE '^(=== |ok|PASS|    --- PASS|        --- PASS)'

# The flags of the measurement in "make day" and "make day-git": "-policy headless -network open", "-whole".
DAYFLAGS ?=

.PHONY: day day-git
day: build ## run the steps of a developer's day without and through acphost, and print the questions, failures and differing files (DAYFLAGS="-policy headless -network open -whole")
	@$(MEASURE_DAY) -run TestDay ./test/day $(DAYFLAGS) | grep -vE '$(DAY_NOISE)'

day-git: build ## do the same with git commands
	@$(MEASURE_DAY) -run TestGit ./test/day $(DAYFLAGS) | grep -vE '$(DAY_NOISE)'

MEASURE_DAY = ACPHOST_BIN=$(CURDIR)/bin $(PLAIN) go test -vet=off -count=1 -v -timeout $(TESTTIME) -parallel 4
DAY_NOISE   = ^(=== |ok|PASS| *--- (PASS|SKIP)| *day_linux_test.go.*not installed)

.PHONY: test-deps
test-deps: $(TOOLS)/grpcurl test/peers/node_modules/.installed examples/policy-node/node_modules/.installed clients/typescript/node_modules/.installed ## install what the tests need

%/node_modules/.installed: %/package.json %/package-lock.json
	cd $* && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME, guided by coverage, two packages at a time
	@$(FUZZED) | FUZZBUILD=-fuzz=. FUZZTIME=$(FUZZTIME) xargs -P 2 -n 1 ./test/fuzz.sh

.PHONY: fuzz-seeds
fuzz-seeds: ## run each fuzz target for 1 s on its seeds and similar inputs, without coverage, which would need a separate build
	@$(FUZZED) | $(PLAIN) FUZZTIME=1s xargs -P 2 -n 1 ./test/fuzz.sh

.PHONY: barrage
barrage: build ## send FRAMES random valid and broken messages (SEED) both ways through a link, and through the binaries, and check the result of each
	go test -v -count=1 -timeout 60m -run TestLink_Barrage ./services/supervisor/internal/proxy/link -frames $(FRAMES) -seed $(SEED)
	ACPHOST_BIN=$(CURDIR)/bin go test -v -count=1 -timeout 60m -run TestBarrage ./test/protocol -frames $(FRAMES) -seed $(SEED)

.PHONY: remote
remote: build test-deps ## test the gateway with the client of the TypeScript SDK: each method of each schema over both transports, and 1,000 broken connections
	ACPHOST_BIN=$(CURDIR)/bin go test -v -count=1 -timeout 30m -run 'TestSweep_TypeScriptTransports|TestCutStreams' ./test/gateway -whole -cuts 1000

.PHONY: overload
overload: build ## open 10,000 TCP connections to the gateway that never complete a request, while 200 clients have a turn, a quarter of which do not read
	ACPHOST_BIN=$(CURDIR)/bin go test -v -count=1 -timeout 10m -run TestGateway_ServesClientsUnderOverload ./test/gateway -connections 10000 -clients 200

.PHONY: arm64
arm64: ## run the tests of the sandbox on arm64, under Yama, and on an older kernel, in QEMU machines: about 20 minutes; needs qemu-system-arm, and apt for Debian's kernels (ONLY=TEXT: only machines with this text in their names)
	test/machine/fetch.sh $(CURDIR)/.tools/arm64
	$(PLAIN) go run ./test/machine -parts $(CURDIR)/.tools/arm64 -only '$(ONLY)'

.PHONY: conformance
conformance: build examples/policy-node/node_modules/.installed ## test that the daemons satisfy the contract, as children and as sidecars; and that a broken one fails
	test/conformance.sh

# The agents that have an entry, and others. They have hundreds of MB, so the gate does not install them. The former
# adapter of Codex has the name of the new one, and pi needs a newer Node than the others. The agents of AGENTS_MORE are
# only tested behind all walls.
AGENTS        ?= .tools/agents
AGENTS_NPM    := @agentclientprotocol/claude-agent-acp@0.100.0 @agentclientprotocol/codex-acp@2.6.0 opencode-ai@1.18.33 @qwen-code/qwen-code@0.24.4 \
	@google/gemini-cli@0.61.0 cline@3.0.65 pi-acp@0.0.34 @zed-industries/claude-code-acp@0.16.2
AGENTS_FORMER := @zed-industries/codex-acp@0.16.0
AGENTS_PI     := @earendil-works/pi-coding-agent@0.87.1 node@22.23.3
AGENTS_MORE   := @github/copilot@1.0.102 droid@0.215.0 @moonshot-ai/kimi-code@2.1.0 @nanocollective/nanocoder@1.30.0

.PHONY: fetch-agents
fetch-agents: ## install the agents that "make agents" runs; needs about 2 GB
	$(NPM_INSTALL) $(AGENTS) $(AGENTS_NPM)
	$(NPM_INSTALL) $(AGENTS)/former $(AGENTS_FORMER)
	$(NPM_INSTALL) $(AGENTS)/pi $(AGENTS_PI)
	$(NPM_INSTALL) $(AGENTS)/more $(AGENTS_MORE)

.PHONY: agents
agents: build fetch-agents ## run real agents with a scripted model, under each policy and behind all walls; writes docs/agents.md
	$(RUN_AGENTS) -timeout 15m -skip "UnderEachPolicy|InSandbox|BehindAllWalls" ./test/agents/
	$(RUN_AGENTS) -timeout 80m -run "UnderEachPolicy|InSandbox|BehindAllWalls" ./test/agents/ -update
	go test -count=1 -run TestPage_ ./test/agents/ -update

# An agent of "make agents-walls", such as "cline"; empty: all.
AGENT ?=

.PHONY: agents-walls
agents-walls: build ## run AGENT, or all installed agents, behind all walls, and print what is done, asked and refused
	$(RUN_AGENTS) -v -timeout 60m -run 'BehindAllWalls$(AGENT:%=/^%$$)' ./test/agents/ | grep -vE '^(=== |ok|PASS)'

RUN_AGENTS = ACPHOST_AGENTS=$(abspath $(AGENTS)) ACPHOST_BIN=$(CURDIR)/bin $(PLAIN) go test -vet=off -count=1

.PHONY: bench
bench: build ## measure the cost of acphost (docs/performance.md)
	go run ./test/bench -bin bin

# --- contracts

.PHONY: generate
generate: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc clients/typescript/node_modules/.installed ## generate Go and TypeScript from the .proto files
	$(TOOLS)/buf generate
	$(TOOLS)/buf generate --template clients/typescript/buf.gen.yaml
	examples/echo/generate.sh
	@$(MAKE) console

# The bundler is a separate module outside of go.work, so that its dependencies do not affect other modules.
CONSOLE := $(CURDIR)/services/gatewayd/internal/console

.PHONY: console
console: $(CONSOLE)/web/node_modules/.installed clients/typescript/node_modules/.installed ## check and bundle the page that gatewayd serves at /console/
	cd $(CONSOLE)/web && npm run --silent check
	cd internal/tools/console && GOWORK=off $(PLAIN) go run . -web $(CONSOLE)/web -proto $(CURDIR)/clients/typescript/src/gen/acphost -out $(CONSOLE)/dist

.PHONY: check-generate
check-generate: generate ## check that generated code is current
	@git diff --exit-code -- proto examples clients services/gatewayd || { echo "generated code is not current: run make generate and commit" >&2; exit 1; }
	@test -z "$$(git status --porcelain -- proto examples clients services/gatewayd)" || { echo "generated files are not committed:" >&2; git status --porcelain -- proto examples clients services/gatewayd >&2; exit 1; }

.PHONY: breaking
breaking: $(TOOLS)/buf ## check that the contracts are compatible with those of main
	@if git rev-parse --verify -q main >/dev/null && git ls-tree --name-only main proto/ | grep -q .; then \
		$(TOOLS)/buf breaking --against '.git#branch=main'; \
	else echo "no main to compare with"; fi

.PHONY: lint
lint: $(TOOLS)/buf $(TOOLS)/golangci-lint lint-workflows ## lint Go, names of tests, protobuf and workflows
	$(TOOLS)/buf lint
	$(TOOLS)/buf format --diff --exit-code
	$(PLAIN) GOGC=400 $(TOOLS)/golangci-lint run --timeout 30m $(ALL)
	$(PLAIN) go test -vet=off -count=1 -run TestNames_BeginWithSubject ./internal/testkit

.PHONY: lint-workflows
lint-workflows: $(TOOLS)/actionlint ## lint .github/workflows
	$(TOOLS)/actionlint -no-color .github/workflows/*.yml

.PHONY: check-tidy
check-tidy: ## check that go.mod and go.sum of every module are tidy
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff) || { echo "$$m is not tidy: run go mod tidy there and commit" >&2; exit 1; }; done

# --- releases

# The release tool is a separate module outside of go.work, so that its dependencies do not affect other modules.
RELEASE    := cd internal/tools/release && GOWORK=off $(PLAIN) go run .
RELEASE_OF  = -repo $(CURDIR) -version "$(VERSION)" -commit $(or $(COMMIT),HEAD)
# Without VERSION, "make release" makes a preview version, which sorts before all others. "make release-tag" requires VERSION.
ifeq ($(origin VERSION),file)
release: VERSION = v0.0.0-dev.g$(shell git rev-parse --short=12 $(or $(COMMIT),HEAD))
release-tag: VERSION =
endif

.PHONY: release
release: ## build the release VERSION=v1.2.3 (v0.0.0-dev.gCOMMIT) of COMMIT (HEAD) in dist/, signed by KEY if it is set (docs/releasing.md)
	$(RELEASE) build $(RELEASE_OF) -out $(CURDIR)/dist $(if $(KEY),-key $(abspath $(KEY))) $(if $(PLATFORMS),-platforms "$(PLATFORMS)")

.PHONY: release-tag
release-tag: ## create the tags of VERSION=v1.2.3 locally: one for each module, on a commit whose modules require each other by version
	$(RELEASE) tag $(RELEASE_OF)

.PHONY: release-check
release-check: ## test the release tools, and build a release twice for this platform, in different folders: the bytes must be the same
	cd internal/tools/release && GOWORK=off $(PLAIN) go test -vet=off -count=1 ./...
	$(RELEASE) check -repo $(CURDIR) -version v0.0.1-check

.PHONY: images
images: build ## build container images of the programs in bin/, in bin/images, for this machine, to test them before a release
	$(RELEASE) images -repo $(CURDIR) -version $(VERSION) -bin $(CURDIR)/bin -out $(CURDIR)/bin/images

.PHONY: release-try
release-try: ## test the packages in dist/ in a minimal Debian, and the images with their users; needs root, mmdebstrap and bubblewrap
	internal/tools/release/try.sh dist
	test/newcomer.sh dist

.PHONY: newcomer
newcomer: ## follow the README with the archive in dist/, in a minimal Debian, and print the duration of each step; needs root, mmdebstrap, bubblewrap, chromium and jq
	test/newcomer.sh dist

# --- the repository itself

.PHONY: lines
lines: ## count lines of code; with BASE=REV, the changes since REV
	@go run ./internal/tools/lines $(if $(BASE),-base $(BASE))

.PHONY: reference
reference: ## generate docs/reference-*.md from the commands and from config.proto; tests check that they are current
	cd services/supervisor && $(PLAIN) go test -vet=off -count=1 -run 'TestReference_Has' ./internal/cli ./internal/config -update

.PHONY: picture
picture: build ## generate docs/demo.txt, docs/demo.svg and docs/chat.svg from acphost's output; tests check that they are current
	script -qec 'stty cols 100 rows 50; bin/acphost demo' /dev/null | sed -E 's|acphost-demo-[0-9]+|acphost-demo|; s|\r||g' > bin/demo.out
	sed -E 's|\x1b\[[0-9;]*m||g' bin/demo.out > docs/demo.txt
	$(PLAIN) go run ./internal/tools/picture -title "acphost demo" < bin/demo.out > docs/demo.svg
	@rm bin/demo.out
	ACPHOST_BIN=$(CURDIR)/bin $(PLAIN) go test -vet=off -count=1 -run TestPicture_ChatIsCurrent ./test/terminal -update

.PHONY: map
map: ## generate docs/map.md from the code
	$(PLAIN) go run ./internal/tools/packagemap

.PHONY: check-map
check-map: ## check that docs/map.md is current
	@$(PLAIN) go run ./internal/tools/packagemap -check

# --- tools

.PHONY: tools
tools: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc $(TOOLS)/golangci-lint $(TOOLS)/grpcurl $(TOOLS)/gotestsum $(TOOLS)/actionlint ## install all tools

# A tool is installed again when its pinned version changes: the name of its stamp file contains the version.
define tool
$(TOOLS)/$(1): $(TOOLS)/.$(1)@$(lastword $(subst @, ,$(2)))
$(TOOLS)/.$(1)@$(lastword $(subst @, ,$(2))):
	@mkdir -p $(TOOLS)
	$(3)
	@rm -f $(TOOLS)/.$(1)@* && touch $$@
endef
gotool = $(call tool,$(1),$(2),GOBIN=$(TOOLS) GOWORK=off $(PLAIN) go install $(2))
# Installed as a binary, because compiling it takes longer than compiling acphost.
npmtool = $(call tool,$(1),$(2),$(NPM_INSTALL) $(dir $(TOOLS))npm $(2) && ln -sf ../npm/node_modules/.bin/$(1) $(TOOLS)/$(1))
$(eval $(call npmtool,buf,$(BUF)))
$(eval $(call gotool,protoc-gen-go,$(PROTOC_GEN_GO)))
$(eval $(call gotool,protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC)))
$(eval $(call gotool,golangci-lint,$(GOLANGCI_LINT)))
$(eval $(call gotool,grpcurl,$(GRPCURL)))
$(eval $(call gotool,gotestsum,$(GOTESTSUM)))
$(eval $(call gotool,actionlint,$(ACTIONLINT)))

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
