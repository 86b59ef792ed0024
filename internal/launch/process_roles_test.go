package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// roleBound reports on which CPUs each of its threads may run.
func roleBound() error {
	for range 4 {
		ready := make(chan struct{})
		go func() { runtime.LockOSThread(); close(ready); hang() }()
		<-ready
	}
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return err
	}
	var lists []string
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				lists = append(lists, strings.TrimSpace(list))
			}
		}
	}
	many := len(lists) > 4
	fmt.Printf("rank %s on %v, many threads %v, procs %d\n", os.Getenv("PMI_RANK"),
		slices.Compact(lists), many, runtime.GOMAXPROCS(0))
	return nil
}

// roleSignalled ends in order on a signal.
func roleSignalled() error {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	fmt.Println("ready")
	fmt.Printf("got %v\n", <-got)
	return nil
}

// roleStubborn ends at no signal that can be caught.
func roleStubborn() error {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	fmt.Println("ready")
	for s := range got {
		fmt.Printf("got %v\n", s)
	}
	return nil
}

// roleOutlive reports to the test over a socket the operations that work without a launcher.
func roleOutlive() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	test, err := net.Dial("unix", os.Getenv(socketEnv))
	if err != nil {
		return err
	}
	fmt.Fprintf(test, "%d %d\n", j.Rank(), os.Getppid())
	if _, err := bufio.NewReader(test).ReadString('\n'); err != nil { // the launcher is dead now
		return err
	}
	for range 3 {
		_, err = fmt.Println("to a broken pipe")
	}
	fmt.Fprintf(test, "print: %v\n", errors.Is(err, syscall.EPIPE))
	fmt.Fprintf(test, "fence: %v\n", errors.Is(j.Fence(ctx), pmi.ErrLauncherGone))
	fmt.Fprintf(test, "finalize: %v\n", j.Finalize(ctx))
	return nil
}

// roleLauncher runs two ranks that may outlive it.
func roleLauncher() error {
	// A launcher that started launchers would fill the machine: ranks get the role by name, and a
	// process that is already a rank is not a launcher.
	if os.Getenv("PMI_RANK") != "" {
		return errors.New("a rank was given the launcher's role")
	}
	policy := spawn.Continue
	if os.Getenv(policyEnv) == "abort" {
		policy = spawn.Abort
	}
	spec := Spec{
		N: 2, Argv: []string{"/proc/self/exe"}, Env: append(os.Environ(), roleEnv+"=outlive"),
		OnFailure: policy, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	if os.Getenv(hostsEnv) != "" {
		var err error
		if spec, err = onHosts(spec, 1); err != nil {
			return err
		}
	}
	_, err := Run(context.Background(), spec)
	return err
}

// roleSurvive reports to the test over a socket the operations that work when rank 0 is dead.
func roleSurvive() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Put(ctx, "k", []byte("v")); err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	test, err := net.Dial("unix", os.Getenv(socketEnv))
	if err != nil {
		return err
	}
	fmt.Fprintf(test, "%d\n", j.Rank())
	if _, err := bufio.NewReader(test).ReadString('\n'); err != nil {
		return err
	}
	_, err = j.Get(ctx, 1, "k")
	fmt.Fprintf(test, "get: %v\n", errors.Is(err, pmi.ErrLauncherGone))
	fmt.Fprintf(test, "fence: %v\n", errors.Is(j.Fence(ctx), pmi.ErrLauncherGone))
	fmt.Fprintf(test, "abort: %v\n", errors.Is(j.Abort(1, ""), pmi.ErrRefused))
	fmt.Fprintf(test, "finalize: %v\n", j.Finalize(ctx))
	return nil
}

// roleJoin joins and fences.
func roleJoin() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	return j.Finalize(ctx)
}
