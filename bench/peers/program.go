package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RunProgram runs a command to its end, launcher and ranks in a process group of their own, which
// is killed when ctx or the limit ends. The error has the last words of a run that failed.
func RunProgram(ctx context.Context, c Command, limit time.Duration) error {
	_, err := runProgram(ctx, c, limit)
	return err
}

// runProgram returns the last words of a run that did not fail, too.
func runProgram(ctx context.Context, c Command, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var output tail
	p := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	p.Env = append(os.Environ(), c.Env...)
	p.Stdout, p.Stderr = &output, &output
	p.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	p.Cancel = func() error { return killGroup(p.Process.Pid) }
	p.WaitDelay = time.Second
	err := p.Run()
	switch {
	case err == nil:
		return output.String(), nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("not over after %v", limit)
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return "", fmt.Errorf("peers: %s: %w; its last words: %s", strings.Join(c.Argv, " "), err, output.String())
}

// killGroup ends a process group; one that has just ended is none.
func killGroup(pid int) error {
	if err := unix.Kill(-pid, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return os.ErrProcessDone
}

// NetPIPE returns a function that builds the command that runs the NetPIPE of this MPI with
// arguments, its ranks pinned to cpus by taskset. The error is a [*NotInstalledError] when a tool
// is missing.
func (m MPI) NetPIPE(cpus [2]int) (func(args ...string) Command, error) {
	launcher, err := m.find(m.Launcher)
	if err != nil {
		return nil, err
	}
	pin, err := findPin(m.Name)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath(m.NetPIPEName)
	if err != nil {
		return nil, &NotInstalledError{Peer: m.Name, Tool: m.NetPIPEName, Packages: m.NetPIPEPackages}
	}
	return func(args ...string) Command {
		argv := append([]string{launcher}, m.Options...)
		for i, cpu := range cpus {
			if i > 0 {
				argv = append(argv, ":")
			}
			argv = append(argv, "-n", "1", pin, "-c", strconv.Itoa(cpu), program)
			argv = append(argv, args...)
		}
		return Command{Argv: argv, Env: m.Env, CPU: -1}
	}, nil
}

// findPin finds the tool that pins a program.
func findPin(peer string) (string, error) {
	pin, err := exec.LookPath("taskset")
	if err != nil {
		return "", &NotInstalledError{Peer: peer, Tool: "taskset", Packages: "util-linux"}
	}
	return pin, nil
}

// Monotonic reads CLOCK_MONOTONIC, which all processes of a machine share.
func Monotonic() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("peers: clock_gettime: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// Pass appends to a file, which all ranks share, that this rank has passed its first barrier now.
// The launcher's forwarding of output has no part in it.
func Pass(file string) error {
	now, err := Monotonic()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "passed %d\n", now.Nanoseconds()); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

// parsePasses returns when the last of n ranks has passed.
func parsePasses(text string, n int) (last time.Duration, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != n {
		return 0, fmt.Errorf("peers: %d lines of ranks that have passed the barrier, %d were to come: %.100q",
			len(lines), n, text)
	}
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, "passed ")
		ns, err := strconv.ParseInt(rest, 10, 64)
		if !ok || err != nil || ns <= 0 {
			return 0, fmt.Errorf("peers: not the line of a rank that has passed the barrier: %q", line)
		}
		last = max(last, time.Duration(ns))
	}
	return last, nil
}

// TimeStartup runs the command that starts n ranks and returns the times from before the launcher
// is started until the last rank has passed its barrier, and until the launcher has ended. command
// gets the file for [Pass].
func TimeStartup(ctx context.Context, n int, command Program) (passed, ended time.Duration, err error) {
	var start time.Duration
	var failed error
	text, err := RunWithFile(ctx, startupMax, func(file string) Command {
		start, failed = Monotonic()
		return command(n, []string{file})
	})
	if err = cmp.Or(failed, err); err != nil {
		return 0, 0, err
	}
	end, err := Monotonic()
	if err != nil {
		return 0, 0, err
	}
	last, err := parsePasses(text, n)
	return last - start, end - start, err
}

// RunWithFile runs a command to which it gives an empty file, and returns the file's content. The limit bounds it.
func RunWithFile(ctx context.Context, limit time.Duration, command func(file string) Command) (string, error) {
	dir, err := Scratch("times")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "times")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	if err := RunProgram(ctx, command(file), limit); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	return string(text), nil
}

// startupMax bounds one start: hundreds of spinning ranks on two cores take long.
const startupMax = 3 * time.Minute
