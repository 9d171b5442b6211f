# Tenon's build and test commands. `make help` lists them.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:

# The programs of the images, and all programs that tests start.
IN_IMAGES := --bin tenon-operator --bin tenon-router --bin tenon-runtime-node
BINARIES := --bin tenon $(IN_IMAGES)
# All builds for tests use this selection, because another selection would enable other features of
# the dependencies, and cargo would compile them again.
FOR_TESTS := --workspace --bins --tests
# Number of nodes of `make cluster`.
NODES := 3
CRD_DIR := charts/tenon-crds/templates
SCRIPTS := .ci/run bench/setup deploy/dashboards/test-rules deploy/tools docs/build e2e/install \
	fuzz/run runtime-node/v8/build \
	$(addprefix deploy/cluster/,apiserver build down load node node-init run-in tenon up) \
	$(addprefix deploy/dist/,build notices requirements set-version) \
	$(addprefix deploy/images/,build rootfs sbom)

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z][a-z0-9-]*:.* ## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: run
run: tools ## Serve examples/hello on http://localhost:8080
	cargo run --profile quick --package tenon -- dev examples/hello

.PHONY: test
test: test-unit test-charts test-rules test-dist fuzz test-e2e ## Run all tests: units, charts, alerts, releases, fuzz targets, and a real Kubernetes control plane

.PHONY: test-unit
test-unit: tools ## Run the tests that do not need Kubernetes
	cargo build $(FOR_TESTS)
	cargo test --workspace

# `-count=1` disables Go's cache of test results, because Go does not detect changes of the charts,
# which are outside of its module.
.PHONY: test-charts
test-charts: tools ## Run the tests of the Helm charts
	cd charts/tests
	go vet ./...
	go test -count=1 ./...

.PHONY: test-e2e
test-e2e: tools ## Run the end-to-end tests on a real control plane, built from source
	deploy/cluster/build control registry
	cargo build $(FOR_TESTS)
	trap 'deploy/cluster/down' EXIT
	deploy/cluster/up --registry
	deploy/cluster/run-in cargo test --workspace --test suite -- --test-threads 4

# Settings: KUBECONFIG=… LOAD=… [PREVIOUS=…] [HELM=…] [TAG=…] [REGISTRY=…]; the script documents
# them.
.PHONY: e2e
e2e: tools ## Install, upgrade, drain and uninstall Tenon on the cluster of KUBECONFIG; LOAD loads the images
	e2e/install

.PHONY: test-rules
test-rules: tools ## Test the chart's alerts, and check every query of its dashboards
	deploy/dashboards/test-rules

.PHONY: test-dist
test-dist: tools ## Test the files of a release, made from debug binaries
	cargo build $(FOR_TESTS)
	node --test deploy/dist/test.mjs

# V8 is not instrumented. Freed memory is overwritten, so that its use by V8 does not go unnoticed.
.PHONY: test-sanitized
test-sanitized: tools ## Run the tests of the node and of the Web interfaces under AddressSanitizer
	export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
	export ASAN_OPTIONS=max_free_fill_size=1048576 LSAN_OPTIONS=suppressions=$(CURDIR)/runtime-node/v8/leaks.txt
	cargo test --target host-tuple --target-dir target/sanitized --package tenon-runtime-node --package tenon-web --package tenon-crypto --package tenon-html --tests

# SECONDS is the time for each target in seconds, and SEED is the seed of the random choices. With a
# fixed seed, the same code gets the same choices, so a change fails only because of what it
# changes. `make fuzz SEED=0` makes other choices in each run.
fuzz: SECONDS := 5
fuzz: SEED := 1
.PHONY: fuzz
fuzz: tools ## Run every fuzz target for SECONDS, 5 by default (installs cargo-fuzz)
	command -v cargo-fuzz >/dev/null || cargo install --locked --debug cargo-fuzz
	SEED=$(SEED) fuzz/run $(SECONDS)

.PHONY: lint
lint: tools ## Check formatting, clippy, shell scripts, and the types of the built-in JavaScript
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	shellcheck --external-sources --source-path SCRIPTDIR $(SCRIPTS)
	node runtime-node/web/types/check.mjs
	cargo clippy --workspace --all-targets -- --deny warnings

# cargo-deny is built without optimization, because optimization takes longer than it saves.
.PHONY: deny
deny: ## Check licenses, bans and sources of dependencies (installs cargo-deny)
	command -v cargo-deny >/dev/null || cargo install --locked --debug cargo-deny
	cargo deny check bans licenses sources

.PHONY: crds
crds: tools ## Generate the CRDs' YAML from the Rust types
	cargo build --quiet --workspace --bin crdgen
	target/debug/crdgen $(CRD_DIR)

.PHONY: reference
reference: tools ## Generate the tables of docs from the CRDs and the codes of failures
	cargo build --quiet --workspace --bin tenon-docs
	target/debug/tenon-docs reference docs

.PHONY: docs
docs: tools ## Build the site of the documentation in target/docs (installs mdBook)
	cargo build --quiet --workspace --bin tenon-docs
	docs/build

.PHONY: test-links
test-links: tools ## Check that every link of the documentation to another host answers
	cargo test --workspace --test book -- --ignored

.PHONY: dashboards
dashboards: tools ## Generate the Grafana dashboards from their queries
	cargo build --quiet --workspace --bin tenon-dashboards
	target/debug/tenon-dashboards generate charts/tenon/dashboards

.PHONY: charts
charts: tools ## Generate the charts' tables and schemas of values, and the lists of rights and policies
	cd charts/tests
	go test ./... -run 'TestReadmeListsEveryValue|TestSchemaDescribesEveryValue|TestRightsMatchTheGoldenFile|TestPoliciesMatchTheGoldenFile' -update

.PHONY: bench
bench: tools ## Measure Tenon beside other systems, in one run
	bench/setup
	deploy/cluster/build
	cargo build --release --workspace $(BINARIES) --bin tenon-bench
	cargo bench --workspace --bench ring --bench compression --bench fast_path
	cargo bench --workspace --bench engine --no-run
	cargo test --release --workspace --test hostile --no-run
	trap 'deploy/cluster/down' EXIT
	deploy/cluster/up
	deploy/cluster/run-in target/release/tenon-bench

.PHONY: bench-pools
bench-pools: tools ## Compare new, shared and pinned isolates, and the cost of a buffer by the size of its pool
	cargo build --release --workspace --bin tenon-bench-pools
	target/release/tenon-bench-pools
	cargo bench --workspace --bench buffers

# Duration of the soak in minutes.
bench-soak: MINUTES := 180
.PHONY: bench-soak
bench-soak: tools ## Measure whether memory, descriptors and latency stay flat for MINUTES, 180 by default
	cargo build --release --workspace $(BINARIES) --bin tenon-bench
	target/release/tenon-bench soak --minutes $(MINUTES)

# NAMES are those of projects or folders of e2e/projects, all by default. The packages come from
# npm.
.PHONY: projects
projects: tools ## Run real projects of frameworks and libraries on Tenon, and print the result of each
	cargo build --release --workspace --bin tenon
	node e2e/projects/run.mjs $(NAMES)

.PHONY: nightly
nightly: ## Run the tests that take too long for each change: AddressSanitizer, random fuzzing, a soak of ten minutes, real projects
	$(MAKE) test-sanitized
	$(MAKE) fuzz SECONDS=120 SEED=0
	$(MAKE) bench-soak MINUTES=10
	$(MAKE) projects

.PHONY: bench-containment
bench-containment: tools ## Measure the effect of hostile Workers on 300 others, on a cluster of three nodes
	deploy/cluster/build control nodes tools
	cargo build --release --workspace $(IN_IMAGES) --bin tenon-bench
	deploy/images/build
	trap 'deploy/cluster/down' EXIT
	deploy/cluster/up --nodes 3
	deploy/cluster/tenon --set runtimePool.replicas=3
	deploy/cluster/run-in target/release/tenon-bench containment

.PHONY: images
images: tools ## Build the images as OCI archives in target/images, without a container engine
	cargo build --release --workspace $(IN_IMAGES)
	deploy/images/build

# BUILDER is the URI of the machine in the provenance.
.PHONY: dist
dist: tools ## Make the files of a release in target/dist: archives, packages, images, charts
	cargo build --release --locked --workspace $(BINARIES)
	deploy/dist/build $(if $(BUILDER),--builder "$(BUILDER)")

# The tag of the images is a hash of their programs, so that changed images are rolled out.
.PHONY: cluster
cluster: tools ## Start a Kubernetes with NODES nodes, with Tenon installed; prints how to use it
	deploy/cluster/build control nodes tools
	cargo build --release --workspace $(IN_IMAGES)
	tag=$$(sha256sum target/release/tenon-{operator,router,runtime-node} | sha256sum)
	deploy/images/build --tag "dev-$${tag:0:12}"
	deploy/cluster/up --nodes $(NODES) --metrics
	deploy/cluster/tenon

.PHONY: cluster-down
cluster-down: ## Stop the cluster of `make cluster`
	deploy/cluster/down

# Installs the tools that a build needs in addition to rustup's Rust.
.PHONY: tools
tools:
	@deploy/tools
