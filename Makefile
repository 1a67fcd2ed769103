# `make run` and `make test` are all that a newcomer needs.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
TESTS := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo "nextest run" || echo "test")

.PHONY: run test sdk loom lint demo proof proof-quick benchmarks benchmarks-page dist fuzz

## Build the gate and serve on http://127.0.0.1:8080. Arguments: make run ARGS="--listen 127.0.0.1:9000"
run:
	$(CARGO) run --release --locked --bin sluicegate -- serve $(ARGS)

## Everything that must hold: Rust tests, then the official SDKs through the real binary.
test:
	$(CARGO) $(TESTS) --workspace --locked
	$(CARGO) test --workspace --doc --locked --quiet
	$(MAKE) sdk

## The official Python and Node SDKs, as they are, through the real binary.
sdk:
	$(CARGO) build --locked --bin sluicegate
	tests/sdk/run $(TARGET)/debug/sluicegate

## Every interleaving of those who board a flight, or wait in a window or a lane.
loom:
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) test --release --locked -p sluicegate-guard --test loom_flight --test loom_window --test loom_lanes

## The gate against its own scripted provider, direct beside it. Needs no key.
demo:
	$(CARGO) build --release --locked --bin sluicegate --example demo
	$(TARGET)/release/examples/demo

## Formatting, lints, docs, dependencies.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check bans licenses sources; \
	else echo "cargo-deny is not installed: dependencies were not checked"; fi

## The gate beside a bare relay, and its flow, printed: about 25 minutes.
proof: dist
	$(TARGET)/dist/proof --gate $(TARGET)/dist/sluicegate

## The same, reduced to about four minutes.
proof-quick: dist
	$(TARGET)/dist/proof --gate $(TARGET)/dist/sluicegate --quick

## Everything that docs/benchmarks.md says, measured anew, and the page: about forty minutes. A part: make benchmarks PARTS=lab
PARTS ?= proof lab other
benchmarks: dist
	docs/benchmarks/measure $(TARGET)/dist $(PARTS)

## docs/benchmarks.md from what was measured before.
benchmarks-page:
	$(CARGO) run --locked --quiet -p sluicegate-proof --bin benchmarks

## Optimised builds of the gate and of what measures it, in target/dist.
dist:
	$(CARGO) build --profile dist --locked --bin sluicegate
	$(CARGO) build --profile dist --locked -p sluicegate-proof --bins

## Each fuzz target for SECONDS.
SECONDS ?= 30
fuzz:
	fuzz/run $(SECONDS)
