# One target per task; `make` alone lists the main ones.
#
# Requirements: Rust (rustup, or a cargo that is new enough), Python 3.11 or newer with venv, make, a C compiler. Everything else is
# installed into .venv/ and .make/ of this folder when a target first needs it.

PYTHON ?= python3
VENV := .venv
CONSOLE_VENV := .make/console
# The console's pages are tested in it.
BROWSER := $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name))))
IN_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

# Architecture of this machine, because the local AWS endpoint runs the functions natively.
MACHINE := $(shell uname -m)
HOST_ARCHITECTURE := $(if $(filter aarch64 arm64,$(MACHINE)),arm64,x86_64)
HOST_BUILD := .aws-sam/local
# The other architecture of Lambda, and the Debian package with its C library.
OTHER_MACHINE := $(if $(filter arm64,$(HOST_ARCHITECTURE)),x86_64,aarch64)
OTHER_LIBRARY := $(if $(filter arm64,$(HOST_ARCHITECTURE)),libc6-amd64-cross,libc6-arm64-cross)
# Environment of samconfig.toml that `make package` and `make deploy` use. ARCHITECTURE=x86_64, PARAMETERS="NAME=VALUE ..." and OPTIONS, which
# `sam deploy` gets, are for the command line.
ENV := default
SET_OVERRIDES = overrides="$$($(PYTHON) tools/parameters.py $(ENV) $(if $(ARCHITECTURE),Architecture=$(ARCHITECTURE)) '$(PARAMETERS)')" || exit 1
FUNCTIONS := ingress consumer relay scheduler dialer reconciler api

RUST_VERSION := $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := .make/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
CARGO_CYCLONEDX_VERSION := 0.5.9
CARGO_CYCLONEDX := .make/cargo-cyclonedx-$(CARGO_CYCLONEDX_VERSION)/bin/cargo-cyclonedx

export SAM_CLI_TELEMETRY := 0

.PHONY: help demo test soak bench check package deploy release sign clean
.PHONY: need-rust need-python need-venv need-linux need-docker need-qemu format clippy doc deny template test-rust provider functions test-deployed
.PHONY: compile-release compile-bench test-dist test-sam-local
.PHONY: test-console pictures need-browser

help: ## list the targets
	@awk -F ' ## ' '/^[a-z-]+:.* ## / { sub(/:.*/, "", $$1); printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: need-rust ## run some hundred calls through the whole system on this machine, and check every result
	@cargo build --locked --workspace --bin switchhook
	@target/debug/switchhook demo

# The requirements are checked before anything is compiled.
test: need-rust need-venv need-linux test-rust $(if $(BROWSER),test-console) test-deployed ## run all tests: Rust, the console in a browser if Chromium is there, the template on a local AWS endpoint
	@echo "make test: all passed$(if $(BROWSER),, but the tests of the console in a browser: Chromium is missing, see make test-console)"

# Cases that each random test draws per round, and seeds that the simulator runs per round.
SOAK_CASES := 10000
SOAK_SEEDS := 2000

# A failing test prints the command that repeats it.
soak: need-rust ## run every random test and the simulator with new seeds until one fails or you stop it
	@seed=$$(date +%s); while true; do next=$$((seed + $(SOAK_SEEDS))); echo "seeds $$seed..$$next"; \
		PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(SOAK_CASES) cargo test --quiet --locked --workspace --tests random:: || exit 1; \
		SWITCHHOOK_SIM_SEEDS=$$seed..$$next cargo test --quiet --locked --workspace --test sim -- share under_other_faults || exit 1; seed=$$next; done

# The functions as they are deployed, for the architecture of this machine. Close other programs first: they share its caches and cores.
bench: need-rust need-linux provider $(VENV)/installed .make/peer/installed ## measure the functions, beside Node.js if it is there, and the local stack under load
	@$(MAKE) --no-print-directory compile-bench ARCHITECTURE=$(HOST_ARCHITECTURE)
	@$(PYTHON) -B benches/bench.py .make/bench
	@cargo build --quiet --release --locked --package switchhook-cli
	@$(PYTHON) -B benches/local_stack.py target/release/switchhook

check: need-rust need-venv format clippy doc deny template ## check the format, lints, documentation, licences and template
	@echo "make check: all passed"

package: need-rust $(VENV)/installed ## build the functions for `sam deploy` (for arm64, or with ARCHITECTURE=x86_64)
	@$(SET_OVERRIDES); $(IN_VENV) sam build --config-env $(ENV) --parameter-overrides "$$overrides"

deploy: package ## build and deploy to AWS (ENV=staging or ENV=prod for an environment of samconfig.toml)
	@$(SET_OVERRIDES); $(IN_VENV) sam deploy --config-env $(ENV) --parameter-overrides "$$overrides" $(OPTIONS)

release: need-rust $(VENV)/installed $(CARGO_CYCLONEDX) ## fill dist/: functions for both architectures, templates, the tool, checksums
	@for architecture in arm64 x86_64; do $(MAKE) --no-print-directory compile-release ARCHITECTURE=$$architecture || exit 1; done
	CARGO_CYCLONEDX=$(CURDIR)/$(CARGO_CYCLONEDX) $(IN_VENV) python tools/release.py

sign: need-python ## copy the webhooks in events/ to .make/events, with new timestamps and signatures
	@$(PYTHON) tools/sign.py events .make/events

clean: ## delete everything that was built or installed here
	rm -rf target .aws-sam .make dist $(VENV)

# --- parts of `make check` -------------------------------------------------------------------------------------------

format: need-rust
	cargo fmt --all --check

clippy: need-rust
	cargo clippy --locked --workspace --all-targets -- -D warnings

doc: need-rust
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items

# The advisories are not checked, because CI cannot reach the network host of their database.
deny: $(CARGO_DENY)
	$(CARGO_DENY) --locked check --hide-inclusion-graph bans licenses sources

# The transform has read the mapping of the template, so W7001 finds nobody else who does.
template: $(VENV)/installed
	$(IN_VENV) sam validate --lint
	@mkdir -p .make
	$(IN_VENV) python tools/expand_template.py template.yaml > .make/expanded.json
	$(IN_VENV) python tools/expand_template.py template.yaml Deployment=Canary10Percent15Minutes > .make/gradual.json
	$(IN_VENV) cfn-lint --ignore-checks W7001 --template .make/expanded.json .make/gradual.json \
		infra/budget.yaml infra/capacity.yaml infra/edge.yaml infra/export.yaml infra/forward.yaml

# --- parts of `make test` --------------------------------------------------------------------------------------------

# Requests to AWS services that the Rust tests record for tests/e2e/test_service_models.py.
REQUESTS := $(CURDIR)/.make/requests

test-rust: need-rust
	@rm -rf $(REQUESTS) && mkdir -p $(REQUESTS)
	SWITCHHOOK_REQUESTS=$(REQUESTS) cargo test --locked --workspace

# The fake provider of the deployed tests: the debug binary that `make demo` uses too.
provider: need-rust
	@cargo build --locked --workspace --bin switchhook

# The pages of `switchhook dev` in Chromium.
test-console: need-browser provider $(CONSOLE_VENV)/installed ## look at the console's pages in a browser
	$(CONSOLE_VENV)/bin/python -m pytest tests/console

# The pictures of README.md and docs/.
pictures: need-browser provider $(CONSOLE_VENV)/installed
	$(CONSOLE_VENV)/bin/python -m pytest tests/console/test_pictures.py --pictures docs/pictures

# cargo-lambda compiles all functions in one run; then `sam build` finds each one compiled and only packages it.
functions: need-rust need-linux $(VENV)/installed
	$(IN_VENV) cargo lambda build --release --locked $(if $(filter arm64,$(HOST_ARCHITECTURE)),--arm64) $(addprefix --bin ,$(FUNCTIONS))
	$(IN_VENV) sam build --build-dir $(HOST_BUILD) --parameter-overrides Architecture=$(HOST_ARCHITECTURE)

test-deployed: functions provider
	$(IN_VENV) python -m pytest tests/e2e

# The functions in containers, by the commands of docs/deploy.md, the first of which is `make package`.
test-sam-local: need-docker need-linux provider
	@$(MAKE) --no-print-directory package ARCHITECTURE=$(HOST_ARCHITECTURE)
	tools/lambda_image.sh $(HOST_ARCHITECTURE) .aws-sam/build/IngressFunction/bootstrap
	SWITCHHOOK_E2E_SAM_LOCAL=1 $(IN_VENV) python -m pytest tests/e2e/test_sam_local.py

# --- parts of `make bench` -------------------------------------------------------------------------------------------

# By the same commands as a release, so that the binaries are the same.
compile-bench: LAMBDA_DIR = .make/bench
compile-bench: need-rust $(VENV)/installed
	@$(RELEASE_BUILD) $(addprefix --bin ,$(FUNCTIONS))
	@$(RELEASE_BUILD) --package switchhook-benches

# Without npm, nothing is installed, and the comparison leaves the AWS SDK for JavaScript out.
.make/peer/installed: benches/peer/package.json benches/peer/package-lock.json
	@rm -rf .make/peer && mkdir -p .make/peer && cp $^ .make/peer
	@cd .make/peer && { npm ci --ignore-scripts --no-audit --no-fund --loglevel error >&2 || rm -rf node_modules; } && touch installed

# --- parts of `make release`, and its test ---------------------------------------------------------------------------

LAMBDA_DIR = .make/release/$(ARCHITECTURE)
RELEASE_BUILD = $(IN_VENV) cargo lambda build --release --locked --$(subst _,-,$(ARCHITECTURE)) --lambda-dir $(LAMBDA_DIR)

# The tool runs on any processor, so cargo-lambda must not optimise it for those of Lambda.
compile-release: need-rust $(VENV)/installed
	$(RELEASE_BUILD) $(addprefix --bin ,$(FUNCTIONS))
	$(RELEASE_BUILD) --disable-optimizations --package switchhook-cli --bin switchhook

# Nothing is compiled: the deployed tests run with the templates, the functions and the tool of dist/.
test-dist: need-linux need-qemu $(VENV)/installed
	@[ -f dist/SHA256SUMS ] || { echo "dist/ is missing: run make release first." >&2; exit 1; }
	SWITCHHOOK_E2E_DIST=$(CURDIR)/dist $(IN_VENV) python -m pytest tests/e2e

# --- installed tools -------------------------------------------------------------------------------------------------

# Without --no-compile, pip would compile thousands of modules of which the tools import a small part.
$(VENV)/installed: tools/requirements.txt tools/constraints.txt | need-venv
	@echo "installing the Python tools into $(VENV) (a minute or two, 900 MB) ..."
	@[ ! -L $(VENV) ] || { echo "$(VENV) is a symbolic link to an outdated environment: renew the environment where it is, or remove the link." >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r tools/requirements.txt -c tools/constraints.txt
	@touch $@

# Small, so that the console can be tested without the tools above.
$(CONSOLE_VENV)/installed: tests/console/requirements.txt | need-venv
	@echo "installing Playwright into $(CONSOLE_VENV) (a minute, 150 MB) ..."
	@$(PYTHON) -m venv --clear $(CONSOLE_VENV)
	@$(CONSOLE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r $<
	@touch $@

# Settings for a short compilation; the speed of the tools does not matter.
$(CARGO_DENY) $(CARGO_CYCLONEDX): TOOL = $(notdir $@)
$(CARGO_DENY) $(CARGO_CYCLONEDX): VERSION = $(patsubst .make/$(TOOL)-%/bin/$(TOOL),%,$@)
$(CARGO_DENY) $(CARGO_CYCLONEDX): | need-rust
	@echo "compiling $(TOOL) $(VERSION) into .make (about a minute) ..."
	@CARGO_TARGET_DIR=.make/$(TOOL)-target CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_LTO=false \
		CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install --quiet --locked --version $(VERSION) --root .make/$(TOOL)-$(VERSION) $(TOOL)
	@rm -rf .make/$(TOOL)-target

# --- requirements ----------------------------------------------------------------------------------------------------

need-rust:
	@command -v cargo >/dev/null || { echo "Rust is missing: install it with rustup (https://rustup.rs)." >&2; exit 1; }
	@command -v cc >/dev/null || { echo "A C compiler is missing: on Debian and Ubuntu, apt install gcc." >&2; exit 1; }
	@found=$$(cargo --version | cut -d ' ' -f 2) && [ -n "$$found" ] || { echo "cargo does not start: see the error above." >&2; exit 1; }; \
	oldest=$$(printf '%s\n' "$(RUST_VERSION)" "$$found" | sort -t . -k 1,1n -k 2,2n -k 3,3n | head -n 1); \
	[ "$$oldest" = "$(RUST_VERSION)" ] || { echo "cargo $$found is too old: $(RUST_VERSION) or newer is required (rustup, https://rustup.rs, installs it automatically)." >&2; exit 1; }

need-python:
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: install Python 3.11 or newer." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: 3.11 or newer is required (make PYTHON=python3.12 ... uses another)." >&2; exit 1; }

need-venv: need-python
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python cannot make virtual environments: on Debian and Ubuntu, apt install python3-venv." >&2; exit 1; }

need-browser: need-linux
	@[ -n "$(BROWSER)" ] || { echo "Chromium is missing: on Debian and Ubuntu, apt install chromium." >&2; exit 1; }

need-docker:
	@docker info >/dev/null 2>&1 || { echo "Docker is missing or does not run: on Debian and Ubuntu, apt install docker.io." >&2; exit 1; }

need-linux:
	@[ "$$(uname -s)" = Linux ] || { echo "The deployed tests run the functions natively and require Linux. Run the other tests with: make test-rust" >&2; exit 1; }

# The functions for the other architecture run in QEMU, with the C library of that architecture.
need-qemu:
	@[ -x /usr/bin/qemu-$(OTHER_MACHINE)-static ] && [ -d /usr/$(OTHER_MACHINE)-linux-gnu/lib ] || { echo "QEMU, or the C library of $(OTHER_MACHINE), is missing: on Debian and Ubuntu, apt install qemu-user-static $(OTHER_LIBRARY)." >&2; exit 1; }
