package hook

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// license is what the kernel asks of programs that read its structures.
const license = "Dual BSD/GPL"

// request is the context of the program that registers.
type request struct {
	PID, Inner, Space uint32
	Status            int32
}

// All programs put what is to be written on the stack, below the frame pointer:
//
//	-32  pid, inner, space, status   as in an entry, from exits.PIDAt on
//	-16  time
//	 -8  scratch; the word for the bell
const (
	stackPID    = -32
	stackInner  = -28
	stackSpace  = -24
	stackStatus = -20
	stackTime   = -16
	stackWord   = -8
	// Of those that record ends.
	stackPointer = -40 // struct pid *
	stackUpid    = -64 // a struct upid: 16 bytes
	stackLevel   = -72
)

// groupExit is SIGNAL_GROUP_EXIT: the whole process ends with one status.
const groupExit = 4

// wake is BPF_RB_FORCE_WAKEUP: also when nobody has read what lies there.
const wake = 2

// appendEntry writes the entry on the stack to the log, rings the bell and
// returns 0.
func appendEntry(h *Hook) asm.Instructions {
	const at = asm.R8
	return asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, stackTime, asm.R0, asm.DWord),
		// Take a number.
		asm.LoadMapValue(asm.R1, h.log.FD(), exits.HeadAt),
		asm.Mov.Imm(asm.R2, 1),
		atomically(asm.FetchAdd, asm.R1, asm.R2, 0),
		// Its place.
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.And.Imm(asm.R3, exits.Entries-1),
		asm.Mul.Imm(asm.R3, exits.EntrySize),
		asm.LoadMapValue(at, h.log.FD(), exits.EntriesAt),
		asm.Add.Reg(at, asm.R3),
		// Clear, fill, publish.
		asm.Mov.Imm(asm.R4, 0),
		atomically(asm.Xchg, at, asm.R4, exits.SeqAt),
		asm.LoadMem(asm.R4, asm.RFP, stackPID, asm.DWord),
		asm.StoreMem(at, exits.PIDAt, asm.R4, asm.DWord),
		asm.LoadMem(asm.R4, asm.RFP, stackSpace, asm.DWord),
		asm.StoreMem(at, exits.EntrySpace, asm.R4, asm.DWord),
		asm.LoadMem(asm.R4, asm.RFP, stackTime, asm.DWord),
		asm.StoreMem(at, exits.TimeAt, asm.R4, asm.DWord),
		asm.Add.Imm(asm.R2, 1),
		atomically(asm.Xchg, at, asm.R2, exits.SeqAt),
		// Ring. A full bell is no error: the log says everything.
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackWord, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, h.bell.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackWord),
		asm.Mov.Imm(asm.R3, 8),
		asm.Mov.Imm(asm.R4, wake),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}
}

// atomically is op.Mem with the operation in the constant too: ebpf v0.22.0 computes
// the constant before it puts the operation there, so every operation would
// become an addition that returns nothing.
func atomically(op asm.AtomicOp, dst, src asm.Register, offset int16) asm.Instruction {
	ins := op.Mem(dst, src, asm.DWord, offset)
	ins.Constant = int64(op >> 8)
	return ins
}

// writer is the program that appends what its context says.
func writer(h *Hook) *ebpf.ProgramSpec {
	ins := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	for i := range int16(4) {
		ins = append(ins,
			asm.LoadMem(asm.R2, asm.R6, 4*i, asm.Word),
			asm.StoreMem(asm.RFP, stackPID+4*i, asm.R2, asm.Word))
	}
	return &ebpf.ProgramSpec{
		Name: "banyan_register", Type: ebpf.Syscall, Flags: sleepable, License: license,
		Instructions: append(ins, appendEntry(h)...),
	}
}

// sleepable is BPF_F_SLEEPABLE, which programs that are run by a system call must
// state.
const sleepable = 1 << 4

// atExit is the program at the exit of threads. The end of a process is
// certain when a thread exits and the exit of all has been decided. Exec from
// another thread decides nothing of the kind, though it ends the others.
func atExit(h *Hook, k *kernel) *ebpf.ProgramSpec {
	ins := asm.Instructions{asm.LoadMem(taskReg, asm.R1, 0, asm.DWord)}
	ins = append(ins, decided(k)...)
	ins = append(ins, asm.JNE.Imm(asm.R2, 0, "ends"))
	ins = append(ins, lastThread(k)...)
	ins = append(ins, record(h, k)...)
	return &ebpf.ProgramSpec{
		Name: "banyan_exit", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "sched_process_exit",
		License: license, Instructions: ins,
	}
}

// atSignal is the program where a signal is sent, run by the sender, which holds
// the lock of the target's signals. If the signal ends the process at once, the
// sender has decided the exit of all threads by now. Asking for that says more
// than the signal's number and its fate do: SIGKILL to a thread that has ended ends
// nobody, and SIGTERM may be fatal.
func atSignal(h *Hook, k *kernel) *ebpf.ProgramSpec {
	ins := asm.Instructions{asm.LoadMem(taskReg, asm.R1, k.signalTask, asm.DWord)}
	ins = append(ins, decided(k)...)
	ins = append(ins, asm.JEq.Imm(asm.R2, 0, "out"))
	ins = append(ins, record(h, k)...)
	return &ebpf.ProgramSpec{
		Name: "banyan_signal", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "signal_generate",
		License: license, Instructions: ins,
	}
}

// Registers of those that record.
const (
	taskReg   = asm.R6 // struct task_struct *, any thread of the process
	signalReg = asm.R7 // its struct signal_struct *
	seenReg   = asm.R9 // its value of Hook.live
)

// decided leaves the task's signal_struct in its register, and in R2 whether the exit of
// all threads has been decided.
func decided(k *kernel) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(signalReg, taskReg, k.task.signal, asm.DWord),
		asm.LoadMem(asm.R2, signalReg, k.signal.flags, asm.Word),
		asm.And.Imm(asm.R2, groupExit),
	}
}

// atExec is the program where a process calls exec: where the tracepoint is sched_prepare_exec (Linux 6.10),
// before the first of its threads is ended and with nothing left that could undo it; else when the new program is
// about to run. It is run by whichever thread calls; one of a process does at a time.
func atExec(h *Hook, k *kernel) *ebpf.ProgramSpec {
	ins := asm.Instructions{
		asm.LoadMem(taskReg, asm.R1, k.execTask, asm.DWord),
		asm.LoadMem(signalReg, taskReg, k.task.signal, asm.DWord),
	}
	ins = append(ins, lookUp(h, k)...)
	ins = append(ins,
		asm.JGE.Imm(seenReg, exits.MostExecs*liveExec, "out"),
		asm.Mov.Reg(asm.R1, seenReg),
		asm.Add.Imm(asm.R1, liveExec),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.Word))
	ins = append(ins, innerPID(k)...)
	ins = append(ins, asm.StoreImm(asm.RFP, stackStatus, int64(exits.Replaced), asm.Word))
	ins = append(ins, entered(h)...)
	return &ebpf.ProgramSpec{
		Name: "banyan_exec", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: k.execAt,
		License: license, Instructions: ins,
	}
}

// The values of Hook.live: whether the process's name in its own namespace is known, and how often it has called exec.
const (
	liveSeen = 1
	liveExec = 2
)

// lookUp puts the process's pid on the stack and goes on if it is registered: with
// its value of Hook.live in a register, and where that is in R0.
func lookUp(h *Hook, k *kernel) asm.Instructions {
	return append(outerPID(k),
		// A look-up takes no lock; strangers go no further.
		asm.LoadMapPtr(asm.R1, h.live.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackPID),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(seenReg, asm.R0, 0, asm.Word))
}

// entered writes the entry of a process that is registered, and ends the program.
func entered(h *Hook) asm.Instructions {
	ins := asm.Instructions{
		// All entries of a process go by the same names.
		asm.And.Imm(seenReg, liveSeen),
		asm.JNE.Imm(seenReg, 0, "seen"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackInner, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, stackSpace, asm.R1, asm.Word),
	}
	ins = append(ins, named("seen", appendEntry(h))...)
	return append(ins, asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
}

// record writes the end of the process, if it is registered.
func record(h *Hook, k *kernel) asm.Instructions {
	ins := named("ends", lookUp(h, k))
	ins = append(ins,
		// Only one strikes it off, of all that see the process end.
		asm.LoadMapPtr(asm.R1, h.live.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackPID),
		asm.FnMapDeleteElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "out"),
	)
	ins = append(ins, innerPID(k)...)
	ins = append(ins,
		// As wait(2) says it: the process's status if it ends as a whole, else that
		// of its first thread. Who decides stores the flag and then the status, under a
		// lock that threads do not hold here: so it is read as late as can be.
		asm.LoadMem(asm.R1, signalReg, k.signal.flags, asm.Word),
		asm.LoadMem(asm.R2, signalReg, k.signal.groupExitCode, asm.Word),
		asm.And.Imm(asm.R1, groupExit),
		asm.JNE.Imm(asm.R1, 0, "status"),
		asm.LoadMem(asm.R1, taskReg, k.task.leader, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, k.task.exitCode, asm.Word),
		asm.StoreMem(asm.RFP, stackStatus, asm.R2, asm.Word).WithSymbol("status"))
	return append(ins, entered(h)...)
}

// named makes the first of some instructions a target of jumps.
func named(label string, ins asm.Instructions) asm.Instructions {
	ins[0] = ins[0].WithSymbol(label)
	return ins
}

// lastThread goes on only where the last thread of a process ends.
func lastThread(k *kernel) asm.Instructions {
	if k.lastThreadTold {
		return asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord),
			asm.And.Imm(asm.R2, 0xff),
			asm.JEq.Imm(asm.R2, 0, "out"),
		}
	}
	return asm.Instructions{
		asm.LoadMem(asm.R2, signalReg, k.signal.live, asm.Word),
		asm.JNE.Imm(asm.R2, 0, "out"),
	}
}

// outerPID puts the pid by which the loader knows the process on the stack, and
// its struct pid.
func outerPID(k *kernel) asm.Instructions {
	if k.level == 0 {
		return asm.Instructions{
			asm.LoadMem(asm.R2, taskReg, k.task.tgid, asm.Word),
			asm.StoreMem(asm.RFP, stackPID, asm.R2, asm.Word),
		}
	}
	ins := structPID(k)
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, stackLevel, asm.DWord),
		asm.JLT.Imm(asm.R1, int32(k.level), "out"),
		asm.Mov.Imm(asm.R1, int32(k.level)))
	ins = append(ins, upid(k)...)
	return append(ins,
		// The namespaces of the same depth are not all the loader's.
		asm.LoadMem(asm.R2, asm.RFP, stackSpace, asm.Word),
		asm.LoadImm(asm.R1, int64(k.space), asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "out"),
		asm.LoadMem(asm.R2, asm.RFP, stackInner, asm.Word),
		asm.StoreMem(asm.RFP, stackPID, asm.R2, asm.Word),
	)
}

// innerPID puts the pid by which the process knows itself on the stack, with its
// namespace.
func innerPID(k *kernel) asm.Instructions {
	ins := append(structPID(k), asm.LoadMem(asm.R1, asm.RFP, stackLevel, asm.DWord))
	return append(ins, upid(k)...)
}

// structPID reads the process's struct pid and its depth. It is read by
// address: places in its array depend on the depth, and loads of kernel types
// have constant places only.
func structPID(k *kernel) asm.Instructions {
	ins := asm.Instructions{asm.Mov.Reg(asm.R3, signalReg), asm.Add.Imm(asm.R3, int32(k.signal.tgid))}
	ins = append(ins, peek(stackPointer, 8)...)
	ins = append(ins,
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackLevel, asm.R1, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, stackPointer, asm.DWord),
		asm.Add.Imm(asm.R3, int32(k.pid.level)))
	return append(ins, peek(stackLevel, 4)...)
}

// upid reads number and namespace at the depth in R1 to stackInner and stackSpace.
func upid(k *kernel) asm.Instructions {
	ins := asm.Instructions{
		asm.Mul.Imm(asm.R1, int32(k.upid.size)),
		asm.LoadMem(asm.R3, asm.RFP, stackPointer, asm.DWord),
		asm.Add.Reg(asm.R3, asm.R1),
		asm.Add.Imm(asm.R3, int32(k.pid.numbers)),
	}
	ins = append(ins, peek(stackUpid, int32(k.upid.size))...)
	ins = append(ins,
		asm.LoadMem(asm.R2, asm.RFP, stackUpid+k.upid.nr, asm.Word),
		asm.StoreMem(asm.RFP, stackInner, asm.R2, asm.Word),
		asm.LoadMem(asm.R3, asm.RFP, stackUpid+k.upid.ns, asm.DWord),
		asm.Add.Imm(asm.R3, int32(k.ns.inum)))
	return append(ins, peek(stackSpace, 4)...)
}

// peek reads n bytes at the address in R3 to the stack. An address that cannot
// be read gives zeros.
func peek(to int16, n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, int32(to)),
		asm.Mov.Imm(asm.R2, n),
		asm.FnProbeReadKernel.Call(),
	}
}

// level finds how deep this process's pid namespace lies.
func (h *Hook) level(k *kernel) (uint32, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "banyan_level", Type: ebpf.RawTracepoint, License: license,
		Instructions: levelProgram(k),
	})
	if err != nil {
		return 0, fmt.Errorf("load the program that looks for the pid namespace: %w", err)
	}
	level, err := p.Run(&ebpf.RunOptions{})
	if err = errors.Join(err, p.Close()); err != nil {
		return 0, fmt.Errorf("look for the pid namespace: %w", err)
	}
	return level, nil
}

// levelProgram returns the depth of the pid namespace of who runs it.
func levelProgram(k *kernel) asm.Instructions {
	ins := asm.Instructions{
		asm.FnGetCurrentTask.Call(),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Add.Imm(asm.R3, int32(k.task.signal)),
	}
	ins = append(ins, peek(stackPointer, 8)...)
	ins = append(ins, asm.LoadMem(signalReg, asm.RFP, stackPointer, asm.DWord))
	ins = append(ins, structPID(k)...)
	return append(ins, asm.LoadMem(asm.R0, asm.RFP, stackLevel, asm.DWord), asm.Return())
}
