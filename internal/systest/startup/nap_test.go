package startup

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// napping is a job in which no rank dies and some ranks sleep for several detector timeouts, drawn
// from a seed by all ranks and the test.
type napping struct {
	seed    uint64
	n       int
	fabric  string
	starter string        // "run", "hosts" in two namespaces, "none": without launcher
	timeout time.Duration // of the detector
	meets   int           // communication between the sleeps after Init and before Finalize
	naps    [][napPoints]time.Duration
}

// Where a rank sleeps: before Init, after it, before Finalize.
const napPoints = 3

func newNapping(seed uint64, most int) *napping {
	r := rand.New(rand.NewPCG(seed, 16))
	j := &napping{seed: seed, n: 2 + r.IntN(most-1), fabric: []string{"shm", "unix", "tcp"}[seed%3],
		starter: []string{"run", "run", "hosts", "none"}[seed%4], timeout: 3 * time.Second, meets: max(0, r.IntN(5)-2)}
	if seed%2 == 0 && most > usualNapping {
		j.timeout = time.Second
		j.n = min(j.n, usualNapping) // more ranks that start on two cores do not run for so long
	}
	if j.starter == "hosts" {
		j.fabric = []string{"shm,tcp", "unix,tcp", "tcp"}[seed%3]
	}
	j.naps = make([][napPoints]time.Duration, j.n)
	naps := 1
	if most > usualNapping {
		naps += r.IntN(3)
	}
	for range naps {
		j.naps[r.IntN(j.n)][napPoints-1-max(0, r.IntN(5)-2)] = j.timeout*3 + time.Duration(r.Int64N(int64(j.timeout)/2))
	}
	return j
}

// usualNapping is the usual largest number of ranks, mostNapping that with BANYAN_LONG.
const usualNapping, mostNapping = 8, 32

func (j *napping) String() string {
	return fmt.Sprintf("BANYAN_SEED=%d runs it again: %d ranks, %s, %s, detect.timeout %v, meets %d, sleeps %v",
		j.seed, j.n, j.fabric, j.starter, j.timeout, j.meets, j.naps)
}

func (j *napping) env() []string {
	return append(os.Environ(), ranktest.RoleEnv+"=naps", fmt.Sprintf("%s=%d", ranktest.SeedEnv, j.seed),
		"BANYAN_FABRIC="+j.fabric,
		"BANYAN_DETECT_TIMEOUT="+j.timeout.String(),
		"BANYAN_DETECT_PERIOD="+(j.timeout/6).Round(time.Millisecond).String())
}

// naps is the whole life of a rank of such a job.
func naps() error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	j := newNapping(seed, mostNappingRanks())
	rank, err := strconv.Atoi(os.Getenv("PMI_RANK") + os.Getenv("RANK"))
	if err != nil {
		return err
	}
	<-time.After(j.naps[rank][0])
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	w.Sleep(j.naps[rank][1])
	c := w.Comm()
	switch j.meets {
	case 1:
		err = c.Barrier()
	case 2:
		_, err = c.Sendrecv(nil, c.Size()-1-rank, 1, nil, c.Size()-1-rank, 1)
	}
	if err != nil {
		return err
	}
	w.Sleep(j.naps[rank][2])
	return w.Finalize()
}

func mostNappingRanks() int {
	if os.Getenv("BANYAN_LONG") != "" {
		return mostNapping
	}
	return usualNapping
}

// run runs the job. No rank may be lost or count as failed.
func (j *napping) run(t *testing.T) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if j.starter == "none" {
		return j.runUnled(t)
	}
	var errs bytes.Buffer
	spec := launch.Spec{N: j.n, Argv: []string{exe}, Env: j.env(), Stdout: io.Discard, Stderr: &errs,
		OnFailure: launch.Continue}
	if j.starter == "hosts" {
		net, err := netns.Open(netns.Config{Hosts: 2})
		if err != nil {
			return err
		}
		defer net.Close()
		onNamespaces(&spec, net, exe)
	}
	res, err := launch.Run(t.Context(), spec)
	if err != nil || res.Code != 0 || errs.Len() > 0 {
		return fmt.Errorf("%v\nended with code %d, error %v\n%s", j, res.Code, err, errs.String())
	}
	return nil
}

// onNamespaces runs the ranks of a job in two namespaces, half of them in each.
func onNamespaces(spec *launch.Spec, net *netns.Net, exe string) {
	first := net.Name(0)
	for i := range 2 {
		spec.Hosts = append(spec.Hosts, launch.Host{Name: net.Name(i), Slots: (spec.N + 1) / 2,
			Env: []string{"BANYAN_NODE=" + net.Name(i)}})
	}
	spec.Proxy = []string{exe, ranktest.ProxyArg}
	spec.Shell = func(host string, cmd *exec.Cmd) error {
		if host == first {
			return net.Start(0, cmd)
		}
		return net.Start(1, cmd)
	}
}

func (j *napping) runUnled(t *testing.T) error {
	for rank, u := range startUnledIn(t, j.n, j.env()) {
		// A rank that waits long for rank 0 logs that.
		if err := u.Wait(); err != nil || strings.Contains(u.out.String(), "counts as dead") {
			return fmt.Errorf("%v\nrank %d: error %v\n%s", j, rank, err, u.out.String())
		}
	}
	return nil
}

// A rank that sleeps for several detector timeouts, before Init ends, between its calls or before
// Finalize, does not count as failed, and neither do ranks that wait for it.
func TestNobodyIsLostToSleep(t *testing.T) {
	// In the first three, ranks were lost when a rank in a fence got no answer from the launcher
	seeds := []uint64{21, 30, 45, 3, 4, 5}
	if testing.Short() {
		seeds = seeds[:2]
	}
	if os.Getenv("BANYAN_LONG") != "" {
		seeds = nil
		for seed := range uint64(200) {
			seeds = append(seeds, seed+1)
		}
	}
	if text := os.Getenv("BANYAN_SEED"); text != "" {
		first, last := ranktest.SeedRange(t, text)
		for seeds = nil; first <= last; first++ {
			seeds = append(seeds, first)
		}
	}
	apart := ranktest.Namespaces(t)
	var room sync.Cond // for so many ranks at once
	room.L = new(sync.Mutex)
	left := mostNapping
	var all sync.WaitGroup
	var ranks atomic.Int64
	for _, seed := range seeds {
		j := newNapping(seed, mostNappingRanks())
		if j.starter == "hosts" && !apart {
			continue
		}
		room.L.Lock()
		for left < j.n {
			room.Wait()
		}
		left -= j.n
		room.L.Unlock()
		all.Go(func() {
			defer func() {
				room.L.Lock()
				left += j.n
				room.L.Unlock()
				room.Broadcast()
			}()
			if err := j.run(t); err != nil {
				t.Error(err)
			}
			ranks.Add(int64(j.n))
		})
	}
	all.Wait()
	require.Positive(t, ranks.Load())
	t.Logf("%d jobs, %d ranks", len(seeds), ranks.Load())
}
