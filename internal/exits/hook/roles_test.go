package hook

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// playThreads has threads of its own, some of which end by themselves with the first byte
// of its input; with the end of it one of the others ends the process.
func playThreads() error {
	const leave, stay = 4, 4
	up, end := make(chan int), make(chan struct{})
	for i := range leave + stay {
		go func() {
			runtime.LockOSThread()
			up <- unix.Gettid()
			if i >= leave {
				select {}
			}
			<-end // and the thread ends with its goroutine
		}()
	}
	var tids []int
	for range leave + stay {
		tids = append(tids, <-up)
	}
	fmt.Println("up")
	go func() {
		runtime.LockOSThread()
		if n, _ := os.Stdin.Read(make([]byte, 1)); n == 1 {
			close(end)
			for living(tids) > stay {
				runtime.Gosched()
			}
			fmt.Println("some have ended")
			_, _ = os.Stdin.Read(make([]byte, 1))
		}
		os.Exit(7)
	}()
	select {}
}

// living counts threads of this process.
func living(tids []int) (n int) {
	for _, tid := range tids {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err == nil {
			n++
		}
	}
	return n
}

// playHandler handles SIGTERM, and continues.
func playHandler() error {
	got := make(chan os.Signal, 1)
	signal.Notify(got, unix.SIGTERM)
	fmt.Println("ready")
	fmt.Println(<-got)
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(6)
	return nil
}

// playCrash dies of its argument, a signal, while it has several threads.
func playCrash() error {
	by, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	for range 4 {
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	}
	if err := unhandled(syscall.Signal(by)); err != nil {
		return err
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	if by == int(unix.SIGSEGV) {
		var nowhere *int
		*nowhere = 1
	}
	return unix.Kill(os.Getpid(), syscall.Signal(by))
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

// playExec becomes another program on command, called by a thread that is not the first.
func playExec() error {
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		failed <- syscall.Exec("/bin/sh", []string{"sh", "-c", "echo other; read x; exit 5"}, os.Environ())
	}()
	return <-failed
}

// playFat has as many megabytes of memory as its argument, and waits.
func playFat() error {
	megabytes, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	memory := make([]byte, megabytes<<20)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	fmt.Println("fat")
	_, _ = os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(memory)
	return nil
}

// playReader tries forbidden operations, prints the results, and then the cause of the end of each
// pid that it reads.
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
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	tab, err := exits.New([]int{3, 4, 5, 6, 7}[:n])
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

// playLauncher acts as a launcher, prints the pid of a victim, starts a reader, and waits to be
// killed.
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
	fmt.Println(victim.pid()) // before the output of the reader
	r := reader(h)
	r.Stdin, r.Stdout, r.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := r.Start(); err != nil {
		return err
	}
	return unix.Pause() // select would end as a deadlock
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
