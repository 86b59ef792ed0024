package peers

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// The benchmarks in C: mpi/peer.c takes samples on command, startup.c times the start of a job,
// coll.c and ulfm.c operations of all ranks; bare/turns.c needs no MPI.
//
//go:embed mpi/*.c bare/*.c
var sources embed.FS

// MPI is one implementation of MPI, by the names that Debian gives its tools.
type MPI struct {
	Name     string   // as in results
	Bin      string   // directory of its tools; "": PATH
	Compiler string   // wrapper
	Launcher string   // mpiexec
	Options  []string // of the launcher
	Crowded  []string // more of them, for more ranks than cores
	Env      []string
	Packages string // Debian's

	NetPIPEName     string // its NetPIPE, and the package that contains it
	NetPIPEPackages string
}

// OpenMPI and MPICH run with the settings that a user gets without asking; no others have been
// tried. The benchmark pins itself, hence no binding.
var (
	OpenMPI = MPI{
		Name: "openmpi", Compiler: "mpicc.openmpi", Launcher: "mpiexec.openmpi",
		Options:     []string{"--bind-to", "none"},
		Crowded:     []string{"--oversubscribe"},
		Env:         []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
		Packages:    "openmpi-bin libopenmpi-dev gcc",
		NetPIPEName: "NPopenmpi", NetPIPEPackages: "netpipe-openmpi",
	}
	MPICH = MPI{
		Name: "mpich", Compiler: "mpicc.mpich", Launcher: "mpiexec.mpich",
		Options:     []string{"-bind-to", "none"},
		Packages:    "mpich libmpich-dev gcc",
		NetPIPEName: "NPmpich2", NetPIPEPackages: "netpipe-mpich2",
	}
)

// OpenMPIOverTCP is Open MPI with its TCP transport through the loopback interface, where it would
// use shared memory. All else is as with [OpenMPI].
var OpenMPIOverTCP = func() MPI {
	m := OpenMPI
	m.Name = "openmpi-tcp"
	m.Options = append(slices.Clip(m.Options), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
		"btl_tcp_if_include", "lo")
	return m
}()

// ULFM is the Open MPI of version 5 or later with its tools in a directory, with its fault
// tolerance enabled and the transports that it supports; "": the package Open MPI of Debian 13 and
// later.
func ULFM(bin string) MPI {
	m := OpenMPI
	m.Name, m.Bin = "openmpi-ulfm", bin
	if bin != "" {
		m.Compiler, m.Launcher, m.Packages = "mpicc", "mpiexec", ""
	}
	m.Options = append(slices.Clip(m.Options), "--with-ft", "ulfm", "--mca", "pml", "ob1", "--mca", "btl", "self,sm")
	return m
}

// NotInstalledError is a peer that is not installed, and the cure.
type NotInstalledError struct {
	Peer     string
	Tool     string // that was not found
	Packages string // Debian's
}

// Error names the tool and the command that installs it, if there is one.
func (e *NotInstalledError) Error() string {
	if e.Packages == "" {
		return fmt.Sprintf("peers: %s is not installed: there is no %s that can be run", e.Peer, e.Tool)
	}
	return fmt.Sprintf("peers: %s is not installed (no %s in PATH): apt-get install %s, or make peers", e.Peer, e.Tool,
		e.Packages)
}

// Start compiles the benchmark where that has not been done and starts its two ranks on cpus. The
// error is a [*NotInstalledError] when a tool is missing.
func (m MPI) Start(ctx context.Context, cpus [2]int) (*Server, error) {
	program, err := m.compile(ctx, "peer")
	if err != nil {
		return nil, err
	}
	launcher, err := m.find(m.Launcher)
	if err != nil {
		return nil, err
	}
	return Start(ctx, m.Name, func(dir string) []Command {
		argv := append([]string{launcher}, m.Options...)
		argv = append(argv, "-n", "2", program, dir, strconv.Itoa(cpus[0]), strconv.Itoa(cpus[1]))
		return []Command{{Argv: argv, Env: m.Env, CPU: -1}}
	})
}

// Startup returns a program that builds the command that starts n ranks of mpi/startup.c: MPI_Init,
// MPI_Barrier and [Pass]. Its argument is the file of Pass. It compiles the source if that has not
// been done; the error is a [*NotInstalledError] when a tool is missing.
func (m MPI) Startup(ctx context.Context) (Program, error) { return m.program(ctx, "startup") }

// Collectives is [MPI.Startup] with mpi/coll.c, which times collectives; see [CollectiveArgs].
func (m MPI) Collectives(ctx context.Context) (Program, error) { return m.program(ctx, "coll") }

// Many is [MPI.Startup] with mpi/many.c, an all-to-all of messages; see bench/many.
func (m MPI) Many(ctx context.Context) (Program, error) { return m.program(ctx, "many") }

// Recovery is [MPI.Startup] with mpi/ulfm.c, which needs fault tolerance, see [ULFM]; its
// operations have no bytes.
func (m MPI) Recovery(ctx context.Context) (Program, error) { return m.program(ctx, "ulfm") }

// Program builds the command that starts n ranks with arguments.
type Program func(n int, args []string) Command

func (m MPI) program(ctx context.Context, name string) (Program, error) {
	program, err := m.compile(ctx, name)
	if err != nil {
		return nil, err
	}
	launcher, err := m.find(m.Launcher)
	if err != nil {
		return nil, err
	}
	return func(n int, args []string) Command {
		argv := slices.Concat([]string{launcher}, m.Options, m.Crowded, []string{"-n", strconv.Itoa(n), program}, args)
		return Command{Argv: argv, Env: m.Env, CPU: -1}
	}, nil
}

func (m MPI) find(tool string) (string, error) {
	path, err := exec.LookPath(filepath.Join(m.Bin, tool))
	if err != nil {
		return "", &NotInstalledError{Peer: m.Name, Tool: filepath.Join(m.Bin, tool), Packages: m.Packages}
	}
	return path, nil
}

// compile returns the path of a benchmark for this MPI, made from the source in this binary. It is
// kept in the user's cache directory; the name depends on the source, on the compiler wrapper and
// on the command that the wrapper would run.
func (m MPI) compile(ctx context.Context, name string) (string, error) {
	cc, err := m.find(m.Compiler)
	if err != nil {
		return "", err
	}
	source, err := sources.ReadFile("mpi/" + name + ".c")
	if err != nil {
		return "", err
	}
	words, err := exec.CommandContext(ctx, cc, "-show").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("peers: %s -show: %w: %s", cc, err, words)
	}
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(slices.Concat([]byte(cc), words, source)) // two installations may print the same words
	return build(ctx, cc, filepath.Join(dir, fmt.Sprintf("%s-%s-%x", name, m.Name, sum[:8])), source)
}

// build compiles a program, unless it is there.
func build(ctx context.Context, cc, program string, source []byte) (string, error) {
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	part := program + ".part" + strconv.Itoa(os.Getpid())
	c := program + ".c"
	if err := os.WriteFile(c, source, 0o666); err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	if out, err := exec.CommandContext(ctx, cc, "-O3", "-Wall", "-Wfatal-errors", "-o", part,
		c).CombinedOutput(); err != nil {
		return "", fmt.Errorf("peers: compile with %s: %w\n%s", cc, err, out)
	}
	if err := os.Rename(part, program); err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	return program, nil
}

// cacheDir makes and returns the directory for compiled benchmarks. Programs without a home have
// none: then the directory for temporary files serves, where others may have been first.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "banyan-peers-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	return dir, checkPrivate(dir)
}

// checkPrivate refuses a directory in which another user could put the program that is about to be
// run.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("peers: programs would be compiled into %s, and it is not a directory that only you can "+
			"write to (%v): remove it, or name another place in XDG_CACHE_HOME", dir, info.Mode())
	}
	return nil
}
