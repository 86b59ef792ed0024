package messages

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// longBytes is a little more than 2^31, and a multiple of no buffer size.
const longBytes = 1<<31 + 3<<20 + 4099

// The windows differ in size, so that a misplaced byte shows.
const (
	sendWindow = 64 << 20
	recvWindow = 48 << 20
)

// folded maps a file of window bytes repeatedly into size bytes of addresses. They take window
// bytes of memory.
func folded(size, window int) ([]byte, func(), error) {
	fd, err := unix.MemfdCreate("folded", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(window)); err != nil {
		return nil, nil, err
	}
	whole := (size + window - 1) / window * window
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(whole), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, err
	}
	unmap := func() { _ = unix.MunmapPtr(base, uintptr(whole)) }
	for at := 0; at < whole; at += window {
		if _, err := unix.MmapPtr(fd, 0, unsafe.Add(base, at), uintptr(window), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			unmap()
			return nil, nil, err
		}
	}
	return unsafe.Slice((*byte)(base), size), unmap, nil
}

// long sends a message of more than 2 GiB from rank 0 to rank 1.
func long(w *banyan.World) error {
	c := w.Comm()
	at := func(i int) byte { i %= sendWindow; return byte(i*7 + i>>8*13 + i>>16*5) }
	if c.Rank() == 0 {
		b, unmap, err := folded(longBytes, sendWindow)
		if err != nil {
			return err
		}
		defer unmap()
		for i := range sendWindow {
			b[i] = at(i)
		}
		return c.Send(b, 1, 3)
	}
	b, unmap, err := folded(longBytes, recvWindow)
	if err != nil {
		return err
	}
	defer unmap()
	probed, err := c.Probe(0, 3)
	if err != nil {
		return err
	}
	st, err := c.Recv(b, 0, 3)
	if err != nil || st.Count != longBytes || probed.Count != longBytes {
		return errors.Join(err, fmt.Errorf("received %+v, probed %+v, want %d bytes", st, probed, longBytes))
	}
	last := longBytes - recvWindow // the window holds the end of the message
	for i := last; i < longBytes; i++ {
		if b[i] != at(i) {
			return fmt.Errorf("byte %d is %d, want %d", i, b[i], at(i))
		}
	}
	return nil
}

func TestLongMessage(t *testing.T) {
	ways := map[string][]string{"kernel copy": nil}
	if os.Getenv("BANYAN_LONG") != "" { // seconds
		ways["streamed"] = []string{ranktest.NoCopyEnv + "=1"}
	}
	for name, env := range ways {
		t.Run(name, func(t *testing.T) { ranktest.Succeed(t, 2, "long", env...) })
	}
}

func TestLongMessageInASimulation(t *testing.T) {
	ways := []bool{true}
	if os.Getenv("BANYAN_LONG") != "" {
		ways = append(ways, false)
	}
	for _, get := range ways {
		require.NoError(t, banyan.Simulate(2, banyan.Simulation{
			Configure: func(c *sim.Config) { c.Get = get },
		}, long), "get %v", get)
	}
}
