package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary is also the program of the ranks, and the launcher that gets killed: roleEnv
// names the role of a process instead of testing.
const roleEnv = "BANYAN_TEST_ROLE"

var roles = map[string]func() error{
	"exchange":   roleExchange,
	"fences":     roleFences,
	"early":      roleEarly,
	"late":       roleLate,
	"slow":       roleSlow,
	"die":        roleDie,
	"garbage":    roleGarbage,
	"abandon":    roleAbandon,
	"abort":      roleAbort,
	"silent":     roleSilent,
	"bound":      roleBound,
	"signalled":  roleSignalled,
	"stubborn":   roleStubborn,
	"outlive":    roleOutlive,
	"launcher":   roleLauncher,
	"starved":    roleStarved,
	"twice":      roleTwice,
	"alone":      roleExchange,
	"no-goodbye": roleNoGoodbye,
	"verdict":    roleVerdict,
	"start-up":   roleStartUp,
	"join":       roleJoin,
	"survive":    roleSurvive,
	"secret":     roleSecret,
	"proxy":      roleProxy,
	"exits":      roleExits,
	"inside":     roleInside,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := roles[role](); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(9)
	}
	os.Exit(0)
}

// hang waits for a signal that ends the process.
func hang() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2) // it is never sent, but the runtime sees no deadlock
	<-never
}

// roleExchange publishes values of many lengths and checks those of all ranks.
func roleExchange() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	lengths := []int{0, 1, 2, 3, 300, 700, 701, 5000}
	for _, n := range lengths {
		if err := j.Put(ctx, fmt.Sprintf("v.%d", n), value(j.Rank(), n)); err != nil {
			return err
		}
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	for peer := range j.Size() {
		for _, n := range lengths {
			got, err := j.Get(ctx, peer, fmt.Sprintf("v.%d", n))
			if err != nil {
				return err
			}
			if !bytes.Equal(got, value(peer, n)) {
				return fmt.Errorf("value of %d bytes of rank %d differs", n, peer)
			}
		}
	}
	if _, err := j.Get(ctx, 0, "nothing"); !errors.Is(err, pmi.ErrNotFound) {
		return fmt.Errorf("an absent value: %v", err)
	}
	if err := j.Put(ctx, "v.1", nil); !errors.Is(err, pmi.ErrRefused) {
		return fmt.Errorf("a second put: %v", err)
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	if err := j.Finalize(ctx); err != nil {
		return err
	}
	if err := j.Fence(ctx); !errors.Is(err, pmi.ErrClosed) {
		return fmt.Errorf("a fence after finalize: %v", err)
	}
	fmt.Printf("rank %d of %d in %s, local %v\n", j.Rank(), j.Size(), j.ID(), j.Local())
	return nil
}

// roleFences passes one fence and reports the second and third.
func roleFences() error { return fences(func(*join.Job) {}) }

func fences(between func(*join.Job)) error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	between(j)
	for range 2 {
		err := j.Fence(ctx)
		fmt.Printf("fence: %v\n", err)
		var missing *pmi.MissingError
		if err != nil && !errors.As(err, &missing) {
			return err
		}
	}
	return j.Finalize(ctx)
}

// roleInside: all but rank 0 publish while they are in a fence, which rank 0 enters only when it
// has read all of that.
func roleInside() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	const values = 100 // the fence has been entered long before the last of them
	fence := make(chan error, 1)
	if j.Rank() > 0 {
		go func() { fence <- j.Fence(ctx) }()
		for i := range values {
			if err := j.Put(ctx, fmt.Sprint("inside", i), []byte("yes")); err != nil {
				return err
			}
		}
		return errors.Join(<-fence, j.Finalize(ctx))
	}
	for peer := 1; peer < j.Size(); {
		switch _, err := j.Get(ctx, peer, fmt.Sprint("inside", values-1)); {
		case err == nil:
			peer++
		case !errors.Is(err, pmi.ErrNotFound):
			return err
		}
	}
	return errors.Join(j.Fence(ctx), j.Finalize(ctx))
}

// victim is the rank that misbehaves.
const victim = 2

// roleDie: the victim kills itself between two fences.
func roleDie() error {
	return fences(func(j *join.Job) {
		if j.Rank() == victim {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			hang()
		}
	})
}

// roleGarbage: the victim talks nonsense to the launcher between two fences.
func roleGarbage() error {
	return fences(func(j *join.Job) {
		if j.Rank() == victim {
			conn := ownConnection()
			_, err := conn.WriteString("GET / HTTP/1.1\r\n")
			for err == nil { // the answer, if there is one, is not ours
				_, err = j.Get(context.Background(), 0, "nothing")
				if errors.Is(err, pmi.ErrNotFound) {
					err = nil
				}
			}
			fmt.Printf("after garbage: %v\n", errors.Is(err, pmi.ErrLauncherGone))
			os.Exit(0)
		}
	})
}

// ownConnection is the socket over which this rank talks to its launcher, or to rank 0: it has no
// other.
func ownConnection() *os.File {
	for fd := 3; fd < 100; fd++ {
		if t, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil && t == unix.SOCK_STREAM {
			return os.NewFile(uintptr(fd), "pmi")
		}
	}
	panic("no connection")
}

// roleAbandon: the victim closes its connection to the launcher and lives on
// until the others have noticed.
func roleAbandon() error {
	return fences(func(j *join.Job) {
		if j.Rank() == victim {
			if err := unix.Shutdown(int(ownConnection().Fd()), unix.SHUT_RDWR); err != nil {
				fmt.Println(err)
			}
			fmt.Println("closed")
			hang()
		}
	})
}

// roleEarly: the victim ends before it has joined.
func roleEarly() error {
	if os.Getenv("PMI_RANK") == fmt.Sprint(victim) {
		os.Exit(127)
	}
	return startUp()
}

// roleLate: none but rank 0 ever joins.
func roleLate() error {
	if os.Getenv("PMI_RANK") != "0" {
		hang()
	}
	return startUp()
}

const gateEnv = "BANYAN_TEST_GATE"

// roleSlow is roleEarly, but the last rank joins after the first one has
// finalized. The gate is a fifo: its opening waits for the other side.
func roleSlow() error {
	last := os.Getenv("PMI_RANK") == "3"
	if last {
		if _, err := os.ReadFile(os.Getenv(gateEnv)); err != nil {
			return err
		}
	}
	err := roleEarly()
	if os.Getenv("PMI_RANK") == "0" {
		return errors.Join(err, os.WriteFile(os.Getenv(gateEnv), nil, 0o600))
	}
	return err
}

// roleStartUp expects that a rank is missing.
func roleStartUp() error {
	fmt.Println("joining")
	return startUp()
}

func startUp() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	err = j.Fence(ctx)
	var missing *pmi.MissingError
	if !errors.As(err, &missing) {
		return fmt.Errorf("fence: %w", err)
	}
	fmt.Printf("start-up: %v\n", err)
	return j.Finalize(ctx)
}

// roleAbort: the victim asks for the end of the job with the code of codeEnv; the others wait for it.
func roleAbort() error {
	code, err := strconv.Atoi(os.Getenv(codeEnv))
	if err != nil {
		return err
	}
	return fences(func(j *join.Job) {
		if j.Rank() == victim {
			if err := j.Abort(code, "cannot go on"); err != nil {
				fmt.Println(err)
			}
		}
		hang()
	})
}

// roleSilent: the victim exits with a code, the others wait for ever.
func roleSilent() error {
	return fences(func(j *join.Job) {
		if j.Rank() == victim {
			os.Exit(7)
		}
		hang()
	})
}

// roleNoGoodbye: the victim exits with code 0 and does not finalize.
func roleNoGoodbye() error {
	return fences(func(j *join.Job) {
		if j.Rank() == victim {
			os.Exit(0)
		}
	})
}

// roleTwice joins twice.
func roleTwice() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	_, err = join.Join(ctx)
	fmt.Printf("again: %v\n", err)
	return j.Finalize(ctx)
}

const (
	socketEnv = "BANYAN_TEST_SOCKET"
	policyEnv = "BANYAN_TEST_POLICY"
	codeEnv   = "BANYAN_TEST_CODE"
)

func value(rank int, length int) []byte {
	v := make([]byte, length)
	for i := range v {
		v[i] = byte(rank*31 + i)
	}
	return v
}
