package hook

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

//go:generate go tool bpf2go -cc clang -target bpfel -cflags "-O2 -g -mcpu=v3 -Wall -Werror" programs exits.bpf.c

// MaxLive bounds the processes that are registered and have not been forgotten.
const MaxLive = 2048

// ErrFull is in the error of [Hook.Register] when there are [MaxLive] processes.
var ErrFull = fmt.Errorf("%d processes are registered, and no more can be", MaxLive)

// bellSize has room for twice the words of MaxLive processes, of 16 bytes each.
const (
	bellSize = 2 * MaxLive * (1 + exits.MostExecs) * bellWord
	bellWord = 16
)

// name is the pid of a process in its own pid namespace, and that namespace; zero if that could not
// be seen.
type name struct{ inner, space uint32 }

// Hook is a loaded program with its log. Its methods may be called concurrently,
// but Close only last.
type Hook struct {
	files           []*os.File // log, bell, links
	log, bell, live *ebpf.Map
	writingProgram  *ebpf.Program
	exits, signals  attached
	execs           attached
	unseen          error // why signals is empty; nil: it is not
	noExec          error // why execs is empty; nil: it is not
	late            bool  // sched_process_exit comes after the memory has been freed
	ring            *ring
	space, depth    uint32 // the loader's pid namespace, and how deep it lies

	mu   sync.Mutex
	pids map[int]name // registered and not forgotten
}

// attached is a program at its tracepoint.
type attached struct {
	program *ebpf.Program
	link    link.Link
}

// attach puts a program that has been loaded at its tracepoint.
func attach(p *ebpf.Program, err error) (attached, error) {
	if err != nil {
		return attached{}, err
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return attached{}, fmt.Errorf("attach %v: %w", p, errors.Join(err, p.Close()))
	}
	return attached{p, l}, nil
}

func (a attached) close() error {
	if a.link == nil {
		return nil
	}
	return errors.Join(a.link.Close(), a.program.Close())
}

// lacks makes a hook as on a kernel that does not have everything.
type lacks struct {
	lastThread bool // sched_process_exit does not report whether the last thread ends
	signals    bool // signal_generate cannot be used
	exec       bool // nothing can be attached to exec
	lateExec   bool // there is no sched_prepare_exec
}

// Open loads and attaches the programs. If the program for signals cannot be attached, it does
// without; [Available] reports that.
func Open() (*Hook, error) { return open(lacks{}) }

func open(without lacks) (_ *Hook, err error) {
	h := &Hook{pids: make(map[int]name)}
	defer func() {
		if err != nil {
			err = errors.Join(explained(err), h.Close())
		}
	}()
	if err := capable(); err != nil {
		return nil, err
	}
	kernel, err := readTracepoints()
	if err != nil {
		return nil, err
	}
	kernel.groupDead = kernel.groupDead && !without.lastThread
	kernel.signal = kernel.signal && !without.signals
	switch {
	case without.exec:
		kernel.exec = ""
	case without.lateExec:
		kernel.exec = "sched_process_exec"
	}
	if h.space, err = ownSpace(); err != nil {
		return nil, err
	}
	spec, err := loadPrograms()
	if err != nil {
		return nil, err
	}
	if err := h.makeMaps(spec); err != nil {
		return nil, err
	}
	return h, errors.Join(h.start(spec, kernel), h.makeFiles())
}

// start loads the programs and attaches them.
func (h *Hook) start(spec *ebpf.CollectionSpec, kernel tracepoints) (err error) {
	if h.depth, err = level(spec); err != nil {
		return err
	}
	h.late = !kernel.groupDead
	for name, value := range map[string]any{
		programsVarLoaderSpace: h.space, programsVarLoaderLevel: h.depth, programsVarGroupDeadPassed: map[bool]uint8{true: 1}[kernel.groupDead],
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	if h.writingProgram, err = h.load(spec, programsProgBanyanRegister); err != nil {
		return err
	}
	if h.exits, err = attach(h.load(spec, programsProgBanyanExit)); err != nil {
		return err
	}
	if h.unseen = errNoSignals; kernel.signal {
		h.signals, h.unseen = attach(h.load(spec, programsProgBanyanSignal))
	}
	if h.noExec = errNoExec; kernel.exec != "" {
		spec.Programs[programsProgBanyanExec].AttachTo = kernel.exec
		h.execs, h.noExec = attach(h.load(spec, programsProgBanyanExec))
	}
	return nil
}

// load loads one program, over the hook's maps.
func (h *Hook) load(spec *ebpf.CollectionSpec, name string) (*ebpf.Program, error) {
	one := spec.Copy()
	one.Programs = map[string]*ebpf.ProgramSpec{name: one.Programs[name]}
	maps := map[string]*ebpf.Map{programsMapBanyanExits: h.log, programsMapBanyanBell: h.bell, programsMapBanyanLive: h.live}
	loaded, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{MapReplacements: maps, Cache: kernelTypes})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	defer loaded.Close() // closes everything that is not detached
	return loaded.DetachProgram(name), nil
}

// level is the depth of this process's pid namespace.
func level(spec *ebpf.CollectionSpec) (uint32, error) {
	types, err := kernelTypes.Kernel()
	if err != nil {
		return 0, err
	}
	p, err := ebpf.NewProgramWithOptions(spec.Programs[programsProgBanyanLevel], ebpf.ProgramOptions{KernelTypes: types})
	if err != nil {
		return 0, fmt.Errorf("load the program that looks for the pid namespace: %w", err)
	}
	depth, err := p.Run(&ebpf.RunOptions{})
	if err = errors.Join(err, p.Close()); err != nil {
		return 0, fmt.Errorf("look for the pid namespace: %w", err)
	}
	return depth, nil
}

// errNoExec is why a hook sees no calls of exec on a kernel of another kind.
var errNoExec = errors.New("this kernel has no tracepoint at exec with a task")

// errNoSignals is why a hook sees no signals on a kernel of another kind.
var errNoSignals = errors.New("this kernel has no tracepoint signal_generate with a task")

// request is the context of banyan_register.
type request struct {
	PID, Inner, Space uint32
	Status            int32
}

func (h *Hook) makeMaps(spec *ebpf.CollectionSpec) (err error) {
	if size := spec.Maps[programsMapBanyanExits].ValueSize; size != exits.LogSize {
		return fmt.Errorf("exits.bpf.c has a log of %d bytes, package exits of %d", size, exits.LogSize)
	}
	spec.Maps[programsMapBanyanBell].MaxEntries, spec.Maps[programsMapBanyanLive].MaxEntries = bellSize, MaxLive
	if h.log, err = ebpf.NewMap(spec.Maps[programsMapBanyanExits]); err != nil {
		return fmt.Errorf("make the log: %w", err)
	}
	first := make([]byte, exits.LogSize)
	binary.NativeEndian.PutUint64(first[exits.MagicAt:], exits.Magic)
	binary.NativeEndian.PutUint32(first[exits.SpaceAt:], h.space)
	if err := h.log.Put(uint32(0), first); err != nil {
		return fmt.Errorf("begin the log: %w", err)
	}
	if err := h.log.Freeze(); err != nil {
		return fmt.Errorf("freeze the log: %w", err)
	}
	if h.bell, err = ebpf.NewMap(spec.Maps[programsMapBanyanBell]); err != nil {
		return fmt.Errorf("make the bell: %w", err)
	}
	if h.ring, err = mapRing(h.bell.FD()); err != nil {
		return err
	}
	if h.live, err = ebpf.NewMap(spec.Maps[programsMapBanyanLive]); err != nil {
		return fmt.Errorf("make the table of processes: %w", err)
	}
	return nil
}

func (h *Hook) makeFiles() error {
	shared := []any{h.log, h.bell, h.exits.link}
	for _, a := range []attached{h.signals, h.execs} {
		if a.link != nil {
			shared = append(shared, a.link)
		}
	}
	for i, object := range shared {
		name := [...]string{"log", "bell", "link to exits", "second link", "third link"}[i]
		has, ok := object.(interface{ FD() int })
		if !ok {
			return fmt.Errorf("the %s has no descriptor: %T", name, object)
		}
		fd, err := unix.FcntlInt(uintptr(has.FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("copy the descriptor of the %s: %w", name, err)
		}
		h.files = append(h.files, os.NewFile(uintptr(fd), name))
	}
	return nil
}

// Files are the descriptors for readers: log, bell, and one to three links. They
// are the hook's: pass them on, do not close them.
func (h *Hook) Files() []*os.File { return h.files }

// Register has the end of a process recorded. The process must not be waited for
// before Forget. It may have ended: then Forget records it.
func (h *Hook) Register(pid int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.pids[pid]; ok {
		return nil
	}
	if len(h.pids) >= MaxLive {
		return fmt.Errorf("exits: register process %d: %w", pid, ErrFull)
	}
	inner, space := h.inside(pid)
	// First the entry: an end that came before it would be taken for an earlier one's.
	if err := h.write(pid, inner, space, exits.Registered); err != nil {
		return err
	}
	// The exit's entry has to contain this name. With another one the entry would outlive the next
	// use of the pid.
	if err := h.live.Put(uint32(pid), min(space, 1)); err != nil {
		return fmt.Errorf("exits: register process %d: %w", pid, err)
	}
	h.pids[pid] = name{inner, space}
	return nil
}

// Forget ends a registration, once the process has ended and before its pid may come back. Nearly
// always its end has been recorded by then; if it ended while it was being registered, it is
// recorded now, without its status.
func (h *Hook) Forget(pid int) error { return h.strike(pid, exits.Unknown) }

// Withdraw undoes Register for a process that has not ended.
func (h *Hook) Withdraw(pid int) error { return h.strike(pid, exits.Withdrawn) }

func (h *Hook) strike(pid int, status int32) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.pids[pid]
	if !ok {
		return nil
	}
	delete(h.pids, pid)
	switch err := h.live.Delete(uint32(pid)); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("exits: forget process %d: %w", pid, err)
	}
	return h.write(pid, known.inner, known.space, status)
}

// Live is the number of processes that are registered and not forgotten.
func (h *Hook) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pids)
}

// write appends to the log by the program. Preconditions: mu is held.
func (h *Hook) write(pid int, inner, space uint32, status int32) error {
	h.ring.makeRoom()
	_, err := h.writingProgram.Run(&ebpf.RunOptions{Context: request{uint32(pid), inner, space, status}})
	if err != nil {
		return fmt.Errorf("exits: write of process %d to the log: %w", pid, err)
	}
	return nil
}

// Close closes the descriptors of this process. Readers continue with theirs.
func (h *Hook) Close() error {
	var errs []error
	if h.ring != nil {
		errs = append(errs, h.ring.unmap())
	}
	for _, f := range h.files {
		errs = append(errs, f.Close())
	}
	errs = append(errs, h.exits.close(), h.signals.close(), h.execs.close(), h.writingProgram.Close(), h.live.Close(), h.bell.Close(), h.log.Close())
	return errors.Join(errs...)
}
