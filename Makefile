# make help lists the targets. Only Go is needed; a C compiler adds the race
# detector to make test.

GO        ?= go
FUZZTIME  ?= 20s
# Per package: a package that hangs is reported with all its stacks.
TIMEOUT   ?= 20m
LONGTIMEOUT ?= 60m

# Left out of the race detector: programs and harnesses (their libraries are in), and
# what computes without a second goroutine: the house rules, trees, the agreement's and
# the detector's state machines, which their drivers bring in again, and packages that have no goroutine, nor have their
# tests. Exchanges among neighbours and collectives of intercommunicators are schedules like those of other collectives;
# ft/control and random programs under many failures are tested in the simulator alone.
NORACE = bench/% cmd/% examples examples/% fabric/fabrictest internal/explore internal/lint internal/pattern coll/tree ft/agree ft/detect internal/proc internal/settings \
	ft/control ft/create ft/repair coll/topology fabric/heap fabric/route internal/few internal/varint internal/vector \
	internal/exits/hook internal/systest/chaos internal/systest/topologies internal/systest/intercomms
# And tests that count allocations or memory, of which the detector takes its own, that only compute or look for
# mutants, that write and compare megabytes or compute for seconds, that time processes, or that refuse system calls
# which the loader of a program with cgo makes. Of the tests in the simulator the short ones stay: it lets one rank run at
# a time, so no two of them race. SIGQUIT is left out since the runtime cannot trace a process that is within the
# detector's code. Processes that call collectives in every layout, over every table or among many ranks repeat for the
# detector what smaller jobs show it: those with deaths and with non-blocking calls stay.
NORACETESTS = ^(FuzzCollective|Test(NoAllocation.*|DeepestValues|UnbridledPeer|RefusedCalls|PollingRankFindsDeath|MemoryOf.*|LargeSimulations|.*Mutants|Exhaustive|.*Simulated|.*InA?Simulation|.*AgainstOracle|.*AgainstTheRules|WaitingOperationsEndWhenRevoked|UniformCollectives|UniformCollectivesLeaveBuffersAlone|UniformCollectivesOfTwoLengths|WrongArgumentsAtOneRank|CollectivesAfterEverySetOfFailures|OperationsOnSharedMemory|ExchangesInOtherModes|Long(Reductions.*|GoesInSegments)|ManyLong(Operations|NonblockingBroadcasts)|TypesOfValues|FinalizeUnderStrictLauncher|QuitShowsWaits|RegisteredMemoryIsMapped|RightCollectivesUnderDebug|Pieces|FloodIsBounded|ComputingIsNoDeath|Levels|LevelsWithDifferentLengths|HugeCollectives|ManyRanksShareMemory|TablesOfProcesses))$$

MODULE  = github.com/banyan-hpc/banyan
CC_HERE = $(shell command -v $${CC:-gcc} || command -v cc || command -v clang)
PKGS     = $(shell $(GO) list ./...)
RACEPKGS = $(filter-out $(addprefix $(MODULE)/,$(NORACE)),$(PKGS))

# Packages whose tests start jobs that spin on all cores, as far as that makes the two lanes last alike: the race
# detector leaves out the programs, and slows down the others.
SPINNING     = $(filter $(MODULE) $(addprefix $(MODULE)/,cmd/% internal/systest/collectives),$(PKGS))
RACESPINNING = $(filter $(MODULE) $(addprefix $(MODULE)/,p2p internal/systest/collectives internal/systest/detection internal/systest/messages),$(RACEPKGS))

# -count=1: many tests draw random schedules or kill processes, so a cached pass
# says nothing.
# -p, and two lanes: a test binary may start dozens of real processes that spin. Two
# such binaries at once on a small machine make each other oversubscribed: only the
# sleeping paths would be tested, slowly, and a hang could not be told from
# starvation. So those of SPINNING packages run one after the other; beside them, two at
# a time, run those that mostly wait (for timeouts, for other hosts) or compute on one
# core.
# -parallel 4, also on two cores: the tests that say t.Parallel wait most of the time.
# -vet=off: check has vetted all packages, with all that vet knows.
GOTEST = $(NODEBUG) $(GO) test -vet=off -count=1 -p 1 -parallel 4

# Test binaries, and the programs that tests build, are linked without the tables of debuggers, in half the time.
# Stack traces do not need them.
NODEBUG = GOFLAGS="$(GOFLAGS) -ldflags=-s"

# What runs one after the other is built before, on all cores, and kept here, where
# those of unchanged packages need not be linked again.
TESTBIN = bin/tests

# One build of each package serves the command, vet, staticcheck and the tests; only
# the race detector needs cgo.
export CGO_ENABLED = 0

# Checkouts in different folders share what is built, also with the examples that a test builds in a folder of its own.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build bin/ftbench, without cgo
	$(GO) build -o bin/ftbench ./cmd/ftbench

.PHONY: docs
docs: build ## write docs/reference.md from the help, and the page for man into bin/ftbench.1
	bin/ftbench docs markdown >docs/reference.md
	bin/ftbench docs man >bin/ftbench.1

.PHONY: bench
bench: build ## a tour of about a minute: latency and bandwidth; results under results/
	@mkdir -p results
	bin/ftbench tour

.PHONY: check
check: ## what needs no test run: vet on amd64 and arm64, formatting, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt-clean:"; echo "$$unformatted"; exit 1; }
	$(GO) vet -tags launchers,emulator,rdma ./... # the tags add files, and leave none out
	GOARCH=arm64 $(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: test
test: check ## everything that must pass before a commit, several minutes on two cores
	@mkdir -p $(TESTBIN)/plain
	$(NODEBUG) $(GO) test -vet=off -c -o $(TESTBIN)/plain/ ./... >/dev/null
	@echo "plain, in two lanes:"
	@$(MAKE) --no-print-directory -j2 plain-spinning plain-waiting
	@$(MAKE) --no-print-directory race

.PHONY: plain-spinning plain-waiting race-spinning race-waiting
plain-spinning:
	$(GOTEST) -o $(TESTBIN)/plain/ -timeout $(TIMEOUT) $(SPINNING)
plain-waiting:
	$(GOTEST) -p 2 -o $(TESTBIN)/plain/ -timeout $(TIMEOUT) $(filter-out $(SPINNING),$(PKGS))

# By default each process that ends waits a second for reports of its other threads;
# here thousands of them end, most without a thread left that could report.
RACE_ENV = GORACE="atexit_sleep_ms=20 $$GORACE"

.PHONY: race
race: ## the race detector over the libraries, with tests scaled down by -short
ifeq ($(CC_HERE),)
	@echo "RACE DETECTOR LEFT OUT: it needs a C compiler (gcc, cc or clang) and none was found"
else
	@mkdir -p $(TESTBIN)/race
	CGO_ENABLED=1 $(NODEBUG) $(GO) test -vet=off -c -race -o $(TESTBIN)/race/ $(RACEPKGS) >/dev/null
	@echo "race detector, in two lanes:"
	@$(MAKE) --no-print-directory -j2 race-spinning race-waiting
endif

RACETEST = $(RACE_ENV) CGO_ENABLED=1 $(GOTEST) -race -short -skip '$(NORACETESTS)' -o $(TESTBIN)/race/ -timeout $(TIMEOUT)
race-spinning:
	$(RACETEST) $(RACESPINNING)
race-waiting:
	$(RACETEST) -p 2 $(filter-out $(RACESPINNING),$(RACEPKGS))

.PHONY: test-long
test-long: check ## the same with all seeds and kills (BANYAN_LONG=1), then each fuzz target for FUZZTIME
	@mkdir -p $(TESTBIN)
	@echo "Every test with BANYAN_LONG=1, an hour or more on two cores, of which bench/fault/drill takes 20 minutes"
	@echo "and cmd/ftbench 20; then make race and make fuzz, half an hour. Tests of more than a second are listed as they end;"
	@echo "all they print is in $(TESTBIN)/long.log."
	@{ BANYAN_LONG=1 $(GOTEST) -v -timeout $(LONGTIMEOUT) ./...; echo "exit status $$?"; } 2>&1 | tee $(TESTBIN)/long.log | \
		grep --line-buffered -E '^(--- |ok |FAIL|panic:|exit status)' | grep --line-buffered -v '^--- PASS.*(0\.[0-9]*s)$$'
	@test "$$(tail -n 1 $(TESTBIN)/long.log)" = "exit status 0"
	@$(MAKE) --no-print-directory race fuzz

# The tests fail where a launcher lacks; a plain go test does not know them.
.PHONY: test-launchers
test-launchers: ## start the same program under Hydra, Slurm, ftbench run, by RANK and as pods; needs make launchers, root
	$(GOTEST) -tags launchers -timeout $(TIMEOUT) -run '^TestLaunchers' -v ./internal/systest/startup ./internal/launch ./internal/launch/rendezvous

.PHONY: test-emulator
test-emulator: ## run ranks built for arm64 under QEMU's user mode, alone and beside ranks of this machine; needs make emulator
	$(GOTEST) -tags emulator -timeout $(TIMEOUT) -run '^TestEmulated' -v ./internal/systest/startup

# VERBSTEST: arguments of the test binary. VERBSPARTS: those of each of its runs, so that each ends in time on a busy machine;
# -test.run=TestRails for those tests alone.
VERBSTEST ?= -test.short
VERBSPARTS ?= -test.skip=TestConformance -test.run=TestConformance/both -test.run=TestConformance/lane
verbs-parts = cd fabric/verbs && for part in $(VERBSPARTS); do \
	testbed/rdma-vm $(1) -i 2 -t 580 -- $(CURDIR)/$(TESTBIN)/verbs.test $$part $(VERBSTEST) || exit; done
.PHONY: test-verbs
test-verbs: ## run the tests of fabric/verbs, VERBSTEST with them, in virtual machines with an RDMA device; needs make rdma
	@$(GO) list ./fabric/verbs >/dev/null || { echo "make test-verbs: there is no package fabric/verbs to test"; exit 1; }
	CGO_ENABLED=1 $(GO) vet ./fabric/verbs
	@mkdir -p $(TESTBIN)
	CGO_ENABLED=1 $(GO) test -c -o $(TESTBIN)/verbs.test ./fabric/verbs
	$(call verbs-parts)

.PHONY: test-verbs-siw
test-verbs-siw: ## run test-verbs with iWARP, by a driver that is built here; needs make rdma
	fabric/verbs/testbed/rdma-vm -p -d siw
	@mkdir -p $(TESTBIN)
	CGO_ENABLED=1 $(GO) test -c -o $(TESTBIN)/verbs.test ./fabric/verbs
	$(call verbs-parts,-d siw)

# The suite of conformance is left out: its processes are killed, and it looks at no memory that the other tests do not.
.PHONY: test-verbs-checked
test-verbs-checked: ## run the other tests of fabric/verbs with the checks of cgo and AddressSanitizer, and 1000 connects; needs make rdma
	@mkdir -p $(TESTBIN)
	CGO_ENABLED=1 $(GO) test -vet=off -c -o $(TESTBIN)/verbs.test ./fabric/verbs
	CGO_ENABLED=1 GOEXPERIMENT=cgocheck2 $(GO) test -vet=off -c -o $(TESTBIN)/verbs.cgocheck ./fabric/verbs
	CGO_ENABLED=1 $(GO) test -vet=off -asan -c -o $(TESTBIN)/verbs.asan ./fabric/verbs
	cd fabric/verbs && GODEBUG=cgocheck=1 testbed/rdma-vm -i 2 -t 480 -- $(CURDIR)/$(TESTBIN)/verbs.cgocheck -test.short -test.skip TestConformance
	cd fabric/verbs && testbed/rdma-vm -i 2 -t 480 -- $(CURDIR)/$(TESTBIN)/verbs.asan -test.short -test.skip TestConformance
	cd fabric/verbs && testbed/rdma-vm -i 2 -t 900 -- $(CURDIR)/$(TESTBIN)/verbs.test -test.run TestNothingIsLeaked -test.timeout 60m

.PHONY: test-rdma-vm
test-rdma-vm: ## test the virtual machines of test-verbs themselves; needs make rdma
	fabric/verbs/testbed/rdma-vm -p
	CGO_ENABLED=1 $(GOTEST) -tags rdma -timeout $(TIMEOUT) -v ./fabric/verbs/testbed

# go test -fuzz takes one target of one package at a time. By default it may spend a minute on
# shortening one input, in which it tries nothing else.
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME: 20s, half an hour in all; with 5m 6.5 hours
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*_test.go:[0-9]*:func | |' | sort | \
	while read -r dir target; do \
		echo "$$dir $$target for $(FUZZTIME)"; \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$dir </dev/null || exit 1; \
	done

# The two instantiations of one operation, addresses and alignment removed.
.PHONY: early-exit
early-exit: build ## show what awareness adds to the machine code of Send and Recv (amd64)
	@dis() { $(GO) tool objdump -s "p2p\.$$1\[go\.shape\.\[$$2\]uint8\]" bin/ftbench | awk '/^ /{$$1=$$2=$$3=""; print}' | \
		grep -v 'NOP' | sed -E 's/ 0x[0-9a-f]{6,}$$/ ADDRESS/; s/0x[0-9a-f]+\(IP\)/ADDRESS/; s/\[go\.shape[^ ]*\]\(SB\)/(SB)/'; }; \
	for op in Send Isend Recv Irecv; do \
		echo "== $$op: > is in the aware engine only, < in the unaware only"; \
		dis $$op 0 >bin/unaware.s; dis $$op 1 >bin/aware.s; \
		diff bin/unaware.s bin/aware.s || true; rm bin/unaware.s bin/aware.s; \
	done

.PHONY: launchers
launchers: ## install what test-launchers starts programs with: MPICH, Slurm (Debian, Ubuntu)
	@command -v apt-get >/dev/null || { \
		echo "make launchers knows only Debian's packages. Elsewhere install: MPICH with mpicc.mpich and"; \
		echo "mpiexec.mpich under these names in PATH, a C compiler, munge, and Slurm with its pmi2 plugin"; \
		echo "and support for several slurmd on one machine."; exit 1; }
	$(SUDO) apt-get update
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
		gcc libc6-dev mpich libmpich-dev slurm-wlm munge iproute2

.PHONY: emulator
emulator: ## install what test-emulator runs ranks with: QEMU's user mode (Debian, Ubuntu; 60 MB)
	$(SUDO) apt-get update
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends qemu-user-static

.PHONY: rdma
rdma: ## install what test-verbs needs: QEMU, libibverbs, perftest (Debian; 50 MB, and 70 MB for a kernel at the first run)
	@command -v apt-get >/dev/null || { \
		echo "make rdma knows only Debian's packages, and the virtual machine runs Debian's kernel: use a container with Debian."; \
		exit 1; }
	$(SUDO) apt-get update
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
		gcc make libc6-dev libibverbs-dev librdmacm-dev ibverbs-providers perftest \
		qemu-system-x86 busybox-static cpio kmod iproute2 xz-utils

.PHONY: peers
peers: ## install what compare measures against: Open MPI, MPICH, UCX, NetPIPE (Debian, Ubuntu)
	@command -v apt-get >/dev/null || { \
		echo "make peers knows only Debian's packages. Elsewhere install: ucx_perftest (UCX),"; \
		echo "Open MPI with mpicc.openmpi and mpiexec.openmpi, MPICH with mpicc.mpich and mpiexec.mpich,"; \
		echo "their NetPIPE as NPopenmpi and NPmpich2, NetPIPE on sockets as NPtcp, taskset (util-linux), each under that name in PATH,"; \
		echo "and a C compiler. ftbench compare uses those it finds."; exit 1; }
	$(SUDO) apt-get update
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
		gcc libc6-dev openmpi-bin libopenmpi-dev mpich libmpich-dev ucx-utils \
		netpipe-openmpi netpipe-mpich2 netpipe-tcp

SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: compare
compare: build ## measure Banyan interleaved with the peers that are installed; results under results/
	@mkdir -p results
	bin/ftbench compare

.PHONY: clean
clean: ## remove bin/, results/ and cached test results
	rm -rf bin results
	$(GO) clean -testcache
