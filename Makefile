# nostall. `make run` and `make test` are the start for a newcomer. Both install their
# missing requirements (scripts/setup).

# A shell opened before rustup was installed lacks its path.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# Builds from nothing are faster, and so is their code.
export CARGO_INCREMENTAL := 0

.DEFAULT_GOAL := help
.PHONY: help setup run report report-test readme-table expected test check msrv no_std full stress kills loom spi-features spi-examples spi-bare-metal fuzz \
	install-check public-api static postmortem-static dist dist-check publish publish-check \
	miri miri-console miri-console-32 miri-io miri-uart miri-spi miri-pstore miri-trace

# Without a message, a long build looks like a hang.
help:
	@echo 'make run           the tour: every fix of Linux and every step beyond, in one table'
	@echo '                   (ARGS="uart --bytes 2500" goes to `nostall-lab run`,'
	@echo '                   ARGS=--help lists the experiments)'
	@echo 'make test          every test'
	@echo 'make report        every figure as a page with charts, docs/report.html'
	@echo 'make book          the book as pages, target/book/index.html (mdBook)'
	@echo 'make readme-table  the table of the tour, into README.md'
	@echo 'make expected      the exact figures of the tour, into bench/expected.json'
	@echo 'make terminal-picture  the picture of a decoded dump, docs/src/postmortem.svg'
	@echo 'make setup         the requirements of both: a C linker, QEMU, three Rust targets'
	@echo 'make check         prose, formatting, lints, documentation'
	@echo 'make traced-kernel a guest kernel whose every function can be traced (nightly Rust)'
	@echo 'make no_std        the bare-metal crates, for every small target'
	@echo 'make spi-examples  drivers from crates.io on a shared SPI bus; spi-bare-metal: in QEMU'
	@echo 'make minimal-kernel  lints the kernel to copy; make test boots it'
	@echo 'make vmm-example   lints and runs the VMM to copy'
	@echo 'make starts        the starts of the book, as a reader copies them; crate-examples: of crates'
	@echo 'make full          checks too long for CI, one after the other (hours); it can be interrupted'
	@echo 'make report-test   pages of figures in headless Chromium, with screenshots'
	@echo 'make linux-peer    builds the Linux kernels for --peers, 25 minutes on 2 CPUs (linux/README.md)'
	@echo 'make msrv          the oldest supported Rust'
	@echo 'make miri          the crates with unsafe code, under Miri'
	@echo 'make miri-seeds    tests of threads under Miri, 16 times; barriers: those in AArch64 code'
	@echo 'make fuzz          the fuzz targets, 10 s each (FUZZ_SECONDS=180 for longer)'
	@echo 'make public-api    the public items of every library, into docs/api; public-api-check compares'
	@echo 'make static        both commands, each one file for any Linux of this processor, and its tests'
	@echo 'make static-arm    the command for 64-bit Arm, and the tests of the decoders in QEMU'
	@echo 'make postmortem-static  the decoder of crash dumps, for any Linux of this processor'
	@echo 'make dist          the files that users without Rust install; dist-check tries them on a fresh Debian'
	@echo 'make python-test   the Python package, in an environment of its own (python/README.md)'
	@echo 'make fleet         2,000 made dumps: export, DuckDB and Spark, compared with the known answers'
	@echo 'make fleet-duckdb  the same with 400 dumps, without Spark; the hooks of examples/fleet'
	@echo 'make install-check `cargo install` gives working commands; no-kernel: one without guest kernels'
	@echo 'make features      every pair of features; minimal-versions: the oldest dependencies'
	@echo 'make deny          licences, origins and advisories of the dependencies'
	@echo 'make semver        the public items against a release (BASELINE=REVISION)'
	@echo 'make mutants       faults that no test notices, in MUTANTS="nostall-io" (MUTANTS_SHARD=0/20)'
	@echo 'make package       packages every published crate, and builds each from its package'
	@echo 'make publish       publishes the crates, for maintainers; publish-check is its dry run'

setup:
	@scripts/setup run

# Built first, so that the build is seen; then run through cargo, which knows
# where the command is (CARGO_TARGET_DIR).
run: setup
	@cargo build --release --locked $(LAB)
	@cargo run --release --locked --quiet $(LAB) -- run $(ARGS)

# The tables of many dumps, whose libraries take longest to build, are in the other command.
LAB := --package nostall-lab

# The page that the README's picture leads to. ARGS are options of `nostall-lab run all`.
report: setup
	@cargo build --release --locked $(LAB)
	@mkdir -p target
	@cargo run --release --locked --quiet $(LAB) -- run all $(ARGS) \
		--json target/report.json --report docs/report.html

# Pages in headless Chromium: of one document, of two, of a hostile one, and the repository's.
REPORT_TEST := target/report-test
REPORT := cargo run --release --locked --quiet $(LAB) -- report
report-test:
	@scripts/setup run
	@scripts/setup chromium
	@mkdir -p $(REPORT_TEST)
	cargo run --release --locked --quiet $(LAB) -- run all --on model \
		--json $(REPORT_TEST)/model.json --report $(REPORT_TEST)/model.html >$(REPORT_TEST)/model.txt
	$(REPORT) $(REPORT_TEST)/model.json crates/lab/nostall-lab/fixtures/report/hostile.json -o $(REPORT_TEST)/two.html
	$(REPORT) crates/lab/nostall-lab/fixtures/report/hostile.json -o $(REPORT_TEST)/hostile.html
	scripts/report-test $(REPORT_TEST) $(REPORT_TEST)/model.html $(REPORT_TEST)/two.html \
		$(REPORT_TEST)/hostile.html docs/report.html

# The book as pages, with the files that it links to. A broken link fails.
.PHONY: book
book:
	@scripts/setup cargo-tools mdbook
	scripts/book target/book

# The README's table, as the tour prints it here. Every row has to run.
readme-table: setup
	@cargo build --release --locked $(LAB)
	@mkdir -p target
	@cargo run --release --locked --quiet $(LAB) -- run >target/tour.txt
	@scripts/readme-table target/tour.txt

# The README's picture of `nostall postmortem`, drawn from a recorded dump of Linux, and the book's of
# `nostall stalls`.
.PHONY: terminal-picture
DUMPS := $(CURDIR)/crates/drivers/pstore/tests/fixtures
terminal-picture:
	@scripts/setup terminal-picture
	cargo build --release --locked --package nostall
	@mkdir -p '$(TARGET_FOLDER)/tmp/picture'
	cd '$(TARGET_FOLDER)/tmp/picture' && PATH='$(TARGET_FOLDER)/release':"$$PATH" \
		'$(PYTHON_ENV)/bin/python' '$(CURDIR)/scripts/terminal-picture' '$(CURDIR)/docs/src/postmortem.svg' \
		"-cp $(DUMPS)/plain/image.bin memory.bin; gzip -dc $(DUMPS)/System.map.gz > System.map" \
		'nostall postmortem -v memory.bin --symbols System.map > records.txt' \
		"grep '^==>' records.txt" \
		"grep -A 9 'sysrq: Trigger' records.txt | tail -n 10" \
		"sed '1,/==> ftrace/d; /==> pmsg/,\$$d' records.txt | tail -n 8"
	cd '$(TARGET_FOLDER)/tmp/picture' && PATH='$(TARGET_FOLDER)/release':"$$PATH" \
		'$(PYTHON_ENV)/bin/python' '$(CURDIR)/scripts/terminal-picture' '$(CURDIR)/docs/src/stalls.svg' \
		"-cp $(CURDIR)/crates/nostall/tests/fixtures/stalls/6.1.dat stalls.dat" \
		'nostall stalls stalls.dat'

# Records the exact figures and the bounds of instruction counts again.
expected:
	@scripts/setup run
	NOSTALL_RECORD=1 NOSTALL_REQUIRE_QEMU=1 NOSTALL_REQUIRE_KVM=1 \
		cargo test --locked --package nostall-lab --test it tour::

# After a failure the other programs run too, so that one run shows all failures.
TEST := cargo test --locked --all-features --no-fail-fast
.PHONY: test-build
test: test-build
	RUST_TEST_THREADS=$(TEST_THREADS) $(TEST)
test-build:
	@scripts/setup run
	@scripts/setup linux
	@scripts/setup linux-memory 6.1-amd64 6.1-arm64 newest-amd64
	@scripts/setup tools
	@scripts/setup trace-tools
	$(TEST) --no-run

# Some tests work while others wait for their virtual machines.
TEST_THREADS = $$((2 * $$(nproc)))

check: prose spelling
	@scripts/setup check
	cargo fmt --all --check
	cargo clippy --locked --all-targets --all-features -- -D warnings
	@# Also as in the kernel that records its functions.
	for features in '' stall-hook; do \
		cargo clippy --locked --package nostall-kernel --features "$$features" \
			--target x86_64-unknown-none --target riscv64gc-unknown-none-elf \
			--target aarch64-unknown-none-softfloat -- -D warnings || exit 1; \
	done
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --all-features
	@# The crates with features, without their features.
	cargo clippy --locked --all-targets --package nostall-pstore --package nostall-devices \
		--package nostall-pci --package nostall-spi --package nostall-console \
		--package nostall-io --package nostall-trace --package nostall-tracefile -- -D warnings
	cargo clippy --locked --lib --no-default-features --package nostall-postmortem -- -D warnings
	cargo clippy --locked --lib --no-default-features --package nostall-trace -- -D warnings
	cargo clippy --locked --lib --no-default-features --package nostall-console -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --package nostall-pstore \
		--package nostall-devices --package nostall-pci --package nostall-spi \
		--package nostall-console --package nostall-io --package nostall-trace \
		--package nostall-tracefile
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --no-default-features --package nostall-console

# Words in comments, messages, names and documents (CONTRIBUTING.md).
.PHONY: prose
prose:
	@scripts/setup check
	cargo run --locked --quiet --package nostall-prose

# typos.toml has the words that are no mistakes.
.PHONY: spelling
spelling:
	@scripts/setup spelling
	PATH="$$(scripts/setup print-tools):$$PATH" typos

SMALL_TARGETS := x86_64-unknown-none riscv64gc-unknown-none-elf \
	riscv32imc-unknown-none-elf thumbv6m-none-eabi thumbv7em-none-eabihf aarch64-unknown-none
NO_STD_CRATES := nostall-console nostall-io nostall-pci nostall-pstore nostall-spi nostall-trace nostall-uart nostall-work

# Checks that take too long for every run of CI. All run, and a table of all ends the output. A later
# run of the same revision goes on: it leaves out those that passed. Lines with SKIPPED in the logs name the
# checks that this machine or checkout cannot make.
# Those that take long are apart from each other, because two run at a time.
FULL := mutants deny public-api-check msrv features semver minimal-versions fuzz linux-traces dist-check loom static-arm \
	miri-seeds package mutants-cores barriers stress spi-features kills no-kernel book report-test fleet linux-flood spi-linux
full:
	@scripts/full $(FULL)

# Every pair of features of each crate. The guest kernels and the Python module have their own checks.
.PHONY: features
features:
	@scripts/setup cargo-tools cargo-hack
	NOSTALL_KERNEL=/dev/null cargo hack check --locked --feature-powerset --depth 2 --workspace --exclude nostall-kernel --exclude nostall-python

.PHONY: minimal-versions
minimal-versions:
	@scripts/setup nightly
	scripts/minimal-versions

# Licences, bans and origins of the dependencies (deny.toml), then their advisories. Their database
# is fetched each time.
.PHONY: deny
deny:
	@scripts/setup cargo-tools cargo-deny
	cargo deny check --hide-inclusion-graph licenses bans sources
	@cargo deny fetch db >/dev/null || { \
		echo 'deny: the database of advisories, on github.com, cannot be fetched: check the network' >&2; exit 1; }
	cargo deny --offline check advisories

# The public items of each library against those of a release, or of another revision. A library
# that the revision lacks is named and left out.
BASELINE ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)
.PHONY: semver
semver:
	@[ -n '$(BASELINE)' ] || { echo 'SKIPPED semver: no release is tagged: give BASELINE=REVISION'; exit 0; }; \
	scripts/setup cargo-tools cargo-semver-checks || exit 1; \
	git rev-parse --quiet --verify '$(BASELINE)^{commit}' >/dev/null || \
		{ echo 'semver: there is no revision $(BASELINE)' >&2; exit 1; }; \
	packages=; for crate in $(filter-out nostall-trace-macros,$(PUBLISHED_LIBRARIES)); do \
		if git grep -q "^name = \"$$crate\"$$" $(BASELINE) -- '*/Cargo.toml'; then packages="$$packages --package $$crate"; \
		else echo "semver: $$crate is newer than $(BASELINE)"; fi; \
	done; \
	[ -n "$$packages" ] || { echo 'SKIPPED semver: $(BASELINE) has none of the libraries'; exit 0; }; \
	cargo semver-checks --all-features --baseline-rev $(BASELINE) $$packages

# Each fault that is put into these crates must make a test fail (.cargo/mutants.toml).
# MUTANTS_SHARD=0/20 makes one in 20 of the faults, spread over all files.
# A fault that makes a test endless is noticed, and cargo-mutants' status is then 3.
MUTANTS ?= nostall-io
# Tests that record with nostall-trace and read whole traces are those of nostall-tracefile.
MUTANTS_TESTS = $(if $(filter nostall-trace,$(MUTANTS)),$(MUTANTS) nostall-tracefile)
.PHONY: mutants mutants-cores
mutants:
	@scripts/setup cargo-tools cargo-mutants
	@scripts/setup tools
	@scripts/setup trace-tools
	cargo mutants --output target $(MUTANTS:%=--package %) $(MUTANTS_TESTS:%=--test-package %) \
			$(MUTANTS_SHARD:%=--sharding round-robin --shard %) || \
		{ [ $$? = 3 ] && [ ! -s target/mutants.out/missed.txt ]; }

# The other cores have 8,300 faults, of three minutes each. Each day has another one in 1,600 of them.
# Those of nostall-work, the experiments' jobs, would need the tests of nostall-lab.
mutants-cores:
	@for mutants in '$(filter-out nostall-io nostall-trace nostall-work,$(NO_STD_CRATES))' nostall-trace; do \
		$(MAKE) --no-print-directory mutants MUTANTS="$$mutants" \
			MUTANTS_SHARD=$$(($$(date +%s) / 86400 % 1600))/1600 || exit 1; \
	done

# A program that records is killed at random points. Each record that it wrote must be there.
kills:
	@scripts/setup build
	NOSTALL_KILLS=1000 cargo test --locked --release \
		--package nostall-trace --features program --test kill -- --nocapture

# A Linux that shows function traces in persistent memory, which Debian's kernels do not.
# LINUX_VARIANTS="6.1 6.12" builds those alone.
LINUX_PEER = $(TARGET_FOLDER)/tmp
.PHONY: linux-peer linux-traces
linux-peer:
	@scripts/setup run
	@scripts/setup linux-source
	@linux/build $(LINUX_PEER)/linux-source $(LINUX_PEER) $(LINUX_VARIANTS)

linux-traces: LINUX_VARIANTS ?= 6.1 6.1-after 6.1-before 6.12
linux-traces: linux-peer
	cargo build --locked --package nostall
	NOSTALL_REQUIRE_QEMU=1 NOSTALL_REQUIRE_LINUX_PEER=1 \
		cargo test --locked --package nostall-lab --test it -- \
		linux_reads::linux_shows_the_trace linux_memory::the_log_of_a_kernel_without_vmcoreinfo_is_decoded
	NOSTALL_REQUIRE_QEMU=1 NOSTALL_REQUIRE_LINUX_PEER=1 \
		cargo test --locked --package nostall-lab --test it peers::

# Linux's watchdog reports a CPU that waits for the one that prints. It takes a minute.
.PHONY: linux-flood
linux-flood: LINUX_VARIANTS ?= 6.1
linux-flood: linux-peer
	linux/flood $(LINUX_PEER)/linux-6.1 >$(LINUX_PEER)/linux-flood.log

# `nostall spi bench` and the controller of Linux's devices, on Debian's kernel for RISC-V.
.PHONY: spi-linux
spi-linux:
	@scripts/setup run
	@scripts/setup spi-linux
	NOSTALL_REQUIRE_QEMU=1 NOSTALL_REQUIRE_SPI_LINUX=1 \
		cargo test --locked --package nostall-lab --test it spi_linux::

# Threads share an SPI bus in every way at once.
STRESS_MESSAGES ?= 1000000
stress:
	@scripts/setup build
	NOSTALL_STRESS_MESSAGES=$(STRESS_MESSAGES) cargo test --locked --release \
		--package nostall-spi --features std --test stress -- --nocapture

# The SPI bus's and the trace recorder's models with three preemptions each, and one with an NMI
# too with one: less than 2 minutes for the recorder. In the tests, the longest have fewer.
loom:
	@scripts/setup build
	NOSTALL_LOOM_BOUND=3 cargo test --locked --release \
		--package nostall-spi --features std --test loom -- --nocapture
	NOSTALL_LOOM_BOUND=3 cargo test --locked --release --package nostall-trace --lib loom

# Tests of threads, with many orders of the threads and many old values in weakly ordered memory.
MIRI_SEEDS ?= 16
.PHONY: miri-seeds
MANY_SEEDS = $(call MIRI,-Zmiri-ignore-leaks -Zmiri-many-seeds=0..$(MIRI_SEEDS))
miri-seeds:
	@scripts/setup miri
	PROPTEST_CASES=1 $(MANY_SEEDS) nostall-console --test it --target-dir target/miri-console -- \
		threads_that_log
	$(MANY_SEEDS) nostall-trace --features macros --lib --test recording --target-dir target/miri -- \
		another_cpu_added while_cpus_record while_a_cpu_records
	$(MANY_SEEDS) nostall-pstore --lib --target-dir target/miri -- two_threads

# Acquire and release instructions in AArch64's code.
.PHONY: barriers
barriers:
	@scripts/setup no_std aarch64-unknown-none-softfloat
	scripts/barriers

# The SPI bus with every set of its features; `make loom` has its models.
spi-features:
	@scripts/setup check
	for features in '' std embassy-time spidev std,embassy-time spidev,embassy-time; do \
		cargo clippy --locked --all-targets --package nostall-spi --features "$$features" \
			-- -D warnings && \
		NOSTALL_LOOM_BOUND=1 cargo test --locked --package nostall-spi --features "$$features" || exit 1; \
	done

SPI_EXAMPLES := --locked --manifest-path examples/spi/Cargo.toml --target-dir target/spi-examples

# Drivers from crates.io share an SPI bus. Two programs run on models of the chips, and all
# build for small targets. A test reads broken SD cards.
spi-examples:
	@scripts/setup check
	@scripts/setup fat
	@scripts/setup no_std thumbv7em-none-eabihf riscv32imc-unknown-none-elf
	cargo fmt --manifest-path examples/spi/Cargo.toml --check
	cargo clippy $(SPI_EXAMPLES) --all-targets -- -D warnings
	cargo test $(SPI_EXAMPLES) --test card
	cargo run $(SPI_EXAMPLES) --bin threads
	cargo run $(SPI_EXAMPLES) --bin embassy
	cargo run $(SPI_EXAMPLES) --bin shared
	cargo build $(SPI_EXAMPLES) --lib \
		--target thumbv7em-none-eabihf --target riscv32imc-unknown-none-elf

# The other programs on QEMU's boards: an SD card's file on a RISC-V board, and a card and a display
# on a Cortex-M board.
spi-bare-metal:
	@scripts/setup no_std thumbv6m-none-eabi riscv64gc-unknown-none-elf
	@scripts/setup boards
	@scripts/setup fat
	cargo build $(SPI_EXAMPLES) --release --target riscv64gc-unknown-none-elf \
		--features sifive_u --bin sifive_u
	cargo build $(SPI_EXAMPLES) --release --target thumbv6m-none-eabi \
		--features lm3s6965evb --bin lm3s6965evb
	scripts/spi-bare-metal target/spi-examples/riscv64gc-unknown-none-elf/release/sifive_u \
		target/spi-examples/thumbv6m-none-eabi/release/lm3s6965evb

MINIMAL_KERNEL := --manifest-path examples/kernel/Cargo.toml --target-dir target/minimal-kernel

# The kernel that a newcomer copies. `make test` boots it.
.PHONY: minimal-kernel
minimal-kernel:
	@scripts/setup check
	cargo fmt --manifest-path examples/kernel/Cargo.toml --check
	for target in x86_64-unknown-none riscv64gc-unknown-none-elf aarch64-unknown-none-softfloat; do \
		cargo clippy --locked $(MINIMAL_KERNEL) --target $$target -- -D warnings || exit 1; \
	done
	cd examples/raspi3 && cargo fmt --check && \
		cargo clippy --locked --target-dir ../../target/minimal-kernel -- -D warnings

VMM_EXAMPLE := --manifest-path examples/vmm/Cargo.toml --target-dir target/vmm-example

# The VMM that a newcomer copies. Its guest prints the host bridge's ID after 1,000 reads of it:
# without an exit from mapped memory, and with one each when they trap.
.PHONY: vmm-example
vmm-example:
	@scripts/setup check
	cargo fmt --manifest-path examples/vmm/Cargo.toml --check
	cargo clippy --locked --all-targets $(VMM_EXAMPLE) -- -D warnings
	@[ -w /dev/kvm ] || { echo 'SKIPPED vmm-example: it runs with a writable /dev/kvm'; exit 0; }; \
	cargo test --locked $(VMM_EXAMPLE) && \
	said=$$(cargo run --locked --quiet $(VMM_EXAMPLE)) && echo "$$said" && \
	echo "$$said" | tr '\n' ' ' | grep -q '^10f01af4 exits: .*, 0 of configuration space' && \
	said=$$(cargo run --locked --quiet $(VMM_EXAMPLE) -- --trap) && echo "$$said" && \
	echo "$$said" | grep -q ', 1000 of configuration space'

# The examples of crates. `make test` has built them.
CRATE_EXAMPLE := timeout 60 cargo run --locked --quiet --all-features --example
.PHONY: crate-examples
crate-examples:
	@scripts/setup run
	cargo build --locked --all-features --example count --example functions --example virtual_time \
		--example panic_backlog --example panic_record
	$(CRATE_EXAMPLE) count
	gzip -dc crates/drivers/pci/tests/fixtures/pc/lspci-xxxx.txt.gz | \
		$(CRATE_EXAMPLE) functions -- /dev/stdin
	$(CRATE_EXAMPLE) virtual_time
	$(CRATE_EXAMPLE) panic_backlog
	$(CRATE_EXAMPLE) panic_record | grep 'out of coffee'

# The starts of the book, copied from it into an empty folder (START="start-trace" for one).
.PHONY: starts
starts:
	@scripts/setup run
	@scripts/setup check
	@scripts/setup python
	cargo fmt --manifest-path examples/trace/Cargo.toml --check
	cargo clippy --locked --manifest-path examples/trace/Cargo.toml --target-dir target/trace-example -- -D warnings
	scripts/try-starts $(START)

# For `nostall-lab run trace --kernel`: prints the paths of the kernels.
.PHONY: traced-kernel
traced-kernel:
	@scripts/setup traced-kernel
	@scripts/traced-kernel

# In one call of cargo, so that no CPU is idle. Examples and guest kernels link the crates.
no_std:
	@scripts/setup no_std $(SMALL_TARGETS)
	cargo check --locked $(SMALL_TARGETS:%=--target %) $(NO_STD_CRATES:%=--package %) \
		--features nostall-console/log,nostall-uart/embedded-io \
		--features nostall-pci/pci_types,nostall-pci/virtio-drivers
	cargo check --locked $(SMALL_TARGETS:%=--target %) --package nostall-trace --features stall-hook

# The public items of the libraries, as text: a rename shows as a line of a diff.
PUBLIC_API ?= docs/api
# The commands' libraries are for their tests.
LIBRARIES = $(patsubst %/src/lib.rs,%,$(wildcard crates/*/src/lib.rs crates/*/*/src/lib.rs))
PUBLISHED_LIBRARIES = $(filter-out nostall-nostall nostall-nostall-lab nostall-bench,$(addprefix nostall-,$(notdir $(LIBRARIES))))
public-api:
	@scripts/setup public-api
	@mkdir -p $(PUBLIC_API)
	@for crate in $(PUBLISHED_LIBRARIES); do \
		echo "public-api: $$crate"; \
		cargo +$$(scripts/setup print-nightly) public-api -sss --all-features --package $$crate \
			>$(PUBLIC_API)/$$crate.txt || exit 1; \
	done

.PHONY: public-api-check
public-api-check:
	@rm -rf target/api
	@$(MAKE) --no-print-directory public-api PUBLIC_API=target/api
	@diff -r -U 0 docs/api target/api || { echo 'docs/api is out of date: run make public-api'; exit 1; }

# The promise is for users, so tests are left out. In `make check`, Clippy compares the standard
# library's items that are used with the promise.
msrv:
	@scripts/setup msrv
	cargo +$$(scripts/setup print-msrv) check --locked --all-features --target-dir target/msrv

# Two at a time, because Miri runs each in one thread.
miri:
	@scripts/setup miri
	@cargo +$$(scripts/setup print-nightly) miri setup
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target \
		miri-pstore miri-spi miri-console miri-console-32 miri-uart miri-io miri-trace

MIRI = MIRIFLAGS='-Zmiri-disable-isolation $(1)' \
	cargo +$$(scripts/setup print-nightly) miri test --locked --package
# The README's example executes `cpuid`, which Miri does not know. Clocks, time-outs and text have
# no unsafe code, and take minutes.
miri-io:
	PROPTEST_CASES=16 $(MIRI) nostall-io --all-features --target-dir target/miri -- \
		--skip Readme --skip time:: --skip timeout --skip text::
miri-uart:
	PROPTEST_CASES=2 $(MIRI) nostall-uart --lib --all-features --target-dir target/miri
miri-console:
	PROPTEST_CASES=1 $(call MIRI,-Zmiri-ignore-leaks) nostall-console --lib \
		--target-dir target/miri-console
	PROPTEST_CASES=1 $(call MIRI,-Zmiri-ignore-leaks) nostall-console --test it \
		--target-dir target/miri-console -- ring:: drain:: sinks:: flush::
# A 32-bit target, where sequences wrap.
miri-console-32:
	PROPTEST_CASES=1 $(MIRI) nostall-console --target i686-unknown-linux-gnu \
		--test it --target-dir target/miri-console -- ring:: --skip threads
	PROPTEST_CASES=1 $(MIRI) nostall-console --target i686-unknown-linux-gnu \
		--test steps --target-dir target/miri-console -- \
		--skip killed --skip interrupted --skip tests --skip threads
# The crate does not allocate; one of its tests leaks a future on purpose.
miri-spi:
	PROPTEST_CASES=2 $(call MIRI,-Zmiri-ignore-leaks) nostall-spi --features std \
		--test it --target-dir target/miri -- messages:: sharing:: futures::
# With AVX2, so that the vector code runs. The crate's unsafe parts do not allocate; its
# tests do, and leak.
miri-pstore:
	PROPTEST_CASES=1 RUSTFLAGS=-Ctarget-feature=+avx2 $(call MIRI,-Zmiri-ignore-leaks) \
		nostall-pstore --lib --target-dir target/miri-pstore
# The tests leak the memory of static recorders. Those of the writer's steps and of damaged images
# have no unsafe code.
miri-trace:
	PROPTEST_CASES=2 $(call MIRI,-Zmiri-ignore-leaks) nostall-trace --features macros --lib \
		--test recording --test sites --target-dir target/miri -- --skip writer \
		--skip zones_survive --skip destroyed_head --skip other_byte_order --skip path_of_a_program

FUZZ_TARGETS := console_ring ftrace_ring linux_formats pci_dump pci_mcfg pci_model pci_walk \
	pstore_decode pstore_decompress pstore_format pstore_image pstore_region pstore_symbols \
	pstore_unverified pstore_zone trace_dat trace_image trace_region trace_text uart_model
FUZZ_SECONDS ?= 10

# First inputs, from the tests' recordings. The first byte of an input is the target's own.
RINGS := crates/records/postmortem/tests/fixtures/ftrace-ring
.PHONY: fuzz-seeds
fuzz-seeds:
	@mkdir -p fuzz/corpus/ftrace_ring fuzz/corpus/linux_formats
	@for region in $(RINGS)/*/region.bin.gz; do \
		name=$$(basename $$(dirname $$region)); \
		{ printf '\001'; gzip -dc $$region | head -c 65536; } >fuzz/corpus/ftrace_ring/$$name; \
		[ -e $(RINGS)/$$name/formats ] || continue; \
		{ printf '\000'; cat $(RINGS)/$$name/formats; printf '\000"%%s %%d", REC->comm, REC->b\000'; \
			head -c 64 /dev/zero; } >fuzz/corpus/linux_formats/$$name; \
	done

# For CI: without the sanitizer's build.
.PHONY: fuzz-check
fuzz-check:
	@scripts/setup fuzz
	cargo +$$(scripts/setup print-nightly) fuzz check

# All are built at once. New inputs go to the first folder.
fuzz: fuzz-seeds
	@scripts/setup fuzz
	cargo +$$(scripts/setup print-nightly) fuzz build
	@for target in $(FUZZ_TARGETS); do \
		echo "fuzz: $$target, $(FUZZ_SECONDS) s"; \
		mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target; \
		cargo +$$(scripts/setup print-nightly) fuzz run $$target \
			fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 || exit 1; \
	done

# Linked statically: it runs on any Linux of this processor, a rescue system's included.
STATIC := $(shell uname -m)-unknown-linux-musl
postmortem-static:
	@scripts/setup no_std $(STATIC)
	cargo build --locked --release --package nostall-postmortem --target $(STATIC)

# The files that users without Rust install, for both processors (docs/src/install.md).
dist:
	@scripts/setup dist
	scripts/dist

# Builds them in two folders, compares, and tries each file on a fresh Debian. It needs root.
dist-check:
	@scripts/setup dist check
	scripts/dist-check

# The command for 64-bit Arm likewise. It and the readers of crash records and traces run their tests in
# QEMU, except those of a limit on memory, a signal or a file's holes, which QEMU does not emulate.
ARM_HOST := aarch64-unknown-linux-musl
ARM_HOST_ENV := CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc \
	CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=$(CURDIR)/scripts/arm-runner
ARM_SKIPPED := a_file_without_an_end a_bus_error_of_other_memory the_data_of_a_sparse_file \
	memory_follows_the_data_of_a_sparse_dump
.PHONY: static-arm
static-arm:
	@scripts/setup run
	@scripts/setup no_std $(ARM_HOST)
	@scripts/setup arm-host
	@scripts/setup tools
	@scripts/setup trace-tools
	$(ARM_HOST_ENV) cargo build --locked --release --package nostall --target $(ARM_HOST)
	$(ARM_HOST_ENV) cargo test --locked --release --target $(ARM_HOST) --lib --test it --package nostall-pstore \
		--package nostall-trace --package nostall-tracefile --package nostall-postmortem --package nostall -- \
		$(ARM_SKIPPED:%=--skip %)

# Both commands likewise, nostall-lab with its guest kernels. `make dist-check` tests those of the packages.
static:
	@scripts/setup run
	@scripts/setup no_std $(STATIC)
	@scripts/setup musl
	cargo build --locked --release --package nostall --package nostall-lab --target $(STATIC)

# The guest kernels are built in two folders and compared, and the command is packaged with them.
.PHONY: package
package:
	@scripts/setup run
	@scripts/setup check
	scripts/package

# All crates, in the order of their dependencies. The dry run packages them, but builds nothing.
publish:
	@scripts/setup check
	scripts/publish
publish-check:
	@scripts/setup check
	scripts/publish --dry-run

# The Python package, in an environment of its own.
TARGET_FOLDER = $(shell cargo metadata --no-deps --format-version 1 | \
	sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
PYTHON_ENV = $(TARGET_FOLDER)/python-env
.PHONY: python python-test
python:
	@scripts/setup python
	VIRTUAL_ENV='$(PYTHON_ENV)' CARGO_TARGET_DIR='$(TARGET_FOLDER)' \
		'$(PYTHON_ENV)/bin/maturin' develop --release --locked --manifest-path python/Cargo.toml

python-test: python
	@scripts/setup check
	cargo clippy --locked --release --package nostall-python -- -D warnings
	cd python && '$(PYTHON_ENV)/bin/python' -m pytest
	@# The other tests of examples/fleet need the commands that `make fleet` builds.
	'$(PYTHON_ENV)/bin/python' -m pytest examples/fleet/test_report.py

# The examples of docs/src/fleet-query.md on a made fleet, and the hooks of docs/src/fleet-hosts.md.
TRY_FLEET = '$(PYTHON_ENV)/bin/python' examples/fleet/try_fleet.py \
	--command '$(TARGET_FOLDER)/release/nostall-fleet' --work '$(TARGET_FOLDER)/tmp/fleet'
.PHONY: fleet fleet-command fleet-duckdb
# With nostall, so that all three share their dependencies' features, and Parquet is built once.
fleet-command: setup
	cargo build --locked --release --package nostall-fleet --package nostall-postmortem --package nostall

fleet-duckdb: fleet-command
	@scripts/setup python
	PATH='$(TARGET_FOLDER)/release':"$$PATH" '$(PYTHON_ENV)/bin/python' -m pytest examples/fleet \
		--ignore examples/fleet/test_spark.py
	$(TRY_FLEET) --dumps 400 --batch 4M

fleet: fleet-command python
	@scripts/setup spark
	PATH='$(TARGET_FOLDER)/release':"$$PATH" '$(PYTHON_ENV)/bin/python' -m pytest examples/fleet
	$(TRY_FLEET) --dumps 2000 --spark

# Without a guest kernel, the command must say so and fail.
.PHONY: no-kernel
no-kernel: setup
	NOSTALL_KERNEL=/dev/null cargo install --quiet --locked --path crates/lab/nostall-lab --root target/no-kernel
	said=$$(target/no-kernel/bin/nostall-lab run uart --on qemu 2>&1); \
	[ $$? = 1 ] && [ "$$(echo "$$said" | wc -l)" = 1 ] && \
	echo "$$said" | grep 'built without its guest kernel'

install-check: setup
	cargo install --quiet --locked --path crates/nostall --root target/install
	target/install/bin/nostall pstore plan --size 1M --cpus 4 >target/plan.txt
	cargo install --quiet --locked --path crates/lab/nostall-lab --root target/install
	@# Not `--on auto`, which would hide a missing guest kernel.
	on=$$(command -v qemu-system-x86_64 >/dev/null && echo qemu || echo model); \
	cd / && '$(CURDIR)/target/install/bin/nostall-lab' run uart --on $$on --bytes 100
	@scripts/setup no_std $(STATIC)
	cargo install --quiet --locked --path crates/records/postmortem --target $(STATIC) --root target/install
	target/install/bin/nostall-postmortem -q crates/drivers/pstore/tests/fixtures/ecc16/image.bin | \
		grep '^==> dmesg 0: .*; verified'
