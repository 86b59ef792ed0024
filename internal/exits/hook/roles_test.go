package hook

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// playThreads has threads of its own, one of which ends the process.
func playThreads() error {
	for range 8 {
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	}
	go func() {
		runtime.LockOSThread()
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(7)
	}()
	select {}
}

// playLeader ends its first thread alone, and with the end of its input the rest.
func playLeader() error {
	pid := os.Getpid()
	go func() {
		for {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", pid))
			if strings.Contains(string(stat), ") Z ") {
				break
			}
		}
		fmt.Println("the first thread is gone")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(9)
	}()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 3, 0, 0)
	return fmt.Errorf("a thread has outlived its end")
}

// playExec becomes another program, called by a thread that is not the first.
func playExec() error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		failed <- syscall.Exec("/bin/sh", []string{"sh", "-c", "echo other; read x; exit 5"}, os.Environ())
	}()
	return <-failed
}

// playFat has half a gigabyte of memory, and waits.
func playFat() error {
	memory := make([]byte, 512<<20)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	fmt.Println("fat")
	_, _ = os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(memory)
	return nil
}

// playReader tries what it may not do, prints what came of it, and then the
// cause of the end of each pid that it reads.
func playReader() error {
	fmt.Println("user", os.Getuid())
	for i, size := range []int{exits.LogSize, 4096} {
		_, err := unix.Mmap(3+i, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		fmt.Println("map for writing:", err)
	}
	mapped, err := unix.Mmap(3, 0, exits.LogSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	fmt.Println("make the mapping writable:", unix.Mprotect(mapped, unix.PROT_READ|unix.PROT_WRITE))
	fmt.Println("change by a system call:", update(3))
	tab, err := exits.New([3]int{3, 4, 5})
	if err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		pid, err := strconv.Atoi(in.Text())
		if err != nil {
			return err
		}
		cause, err := await(tab, pid)
		fmt.Println(cause, err)
	}
	return tab.Close()
}

// playLauncher does what a launcher does, tells the pids of a victim and a
// reader, and waits to be killed.
func playLauncher() error {
	h, err := Open()
	if err != nil {
		return err
	}
	victim, err := begin(exec.Command("/bin/sleep", "1000"))
	if err != nil {
		return err
	}
	if err := h.Register(victim.pid()); err != nil {
		return err
	}
	reader := player("reader")
	reader.Stdin, reader.Stdout, reader.Stderr, reader.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, h.Files()
	if err := reader.Start(); err != nil {
		return err
	}
	fmt.Println(victim.pid())
	select {}
}

// playNested is the first process of a pid namespace, in which it loads the hook
// and has one pid used by two processes.
func playNested() error {
	h, err := Open()
	if err != nil {
		return err
	}
	tab, err := tableOf(h)
	if err != nil {
		return err
	}
	first, err := begin(shell("exit 3"))
	if err != nil {
		return err
	}
	pid := first.pid()
	if err := finish(h, tab, first); err != nil {
		return err
	}
	second, err := again(pid)
	if err != nil {
		return err
	}
	_, before := tab.Ended(pid)
	if err := h.Register(pid); err != nil {
		return err
	}
	_, after := tab.Ended(pid)
	fmt.Println("level", h.depth, "ended before", before, "after", after)
	return finish(h, tab, second)
}

// finish registers a shell, lets it end, and prints how.
func finish(h *Hook, tab *exits.Table, a *actor) error {
	if err := h.Register(a.pid()); err != nil {
		return err
	}
	if err := a.in.Close(); err != nil {
		return err
	}
	cause, err := await(tab, a.pid())
	fmt.Println(cause, err)
	if err := h.Forget(a.pid()); err != nil {
		return err
	}
	_ = a.Wait() // its code is not 0, which is an error
	return nil
}

// again begins a shell that gets a pid that was used before.
func again(pid int) (*actor, error) {
	for range 1000 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return nil, err
		}
		a, err := begin(shell("exit 4"))
		if err != nil || a.pid() == pid {
			return a, err
		}
		a.in.Close()
		_ = a.Wait() // a thread of ours was faster
	}
	return nil, fmt.Errorf("no process gets the pid %d", pid)
}
