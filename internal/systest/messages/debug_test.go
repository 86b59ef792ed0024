package messages

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// mistakes are programs with a mistake that the library finds under WithDebug alone. Rank 1 finds it,
// of two.
var mistakes = []struct {
	name string
	body func(c *banyan.Comm) error
	want []string
}{
	{"types of a blocking pair", func(c *banyan.Comm) error {
		if c.Rank() == 0 {
			return banyan.Send(c, make([]float64, 2), 1, 5)
		}
		_, err := banyan.Recv(c, make([]int32, 4), 0, 5)
		return err
	}, []string{"float64", "int32", "rank 0", "rank 1", "tag 5"}},
	{"types of non-blocking calls", func(c *banyan.Comm) error {
		var r banyan.Request
		if c.Rank() == 0 {
			r = banyan.Isend(c, make([]uint32, 2), 1, 5)
		} else {
			r = banyan.Irecv(c, make([]float32, 2), banyan.AnySource, banyan.AnyTag)
		}
		return banyan.WaitAll([]banyan.Request{r})
	}, []string{"uint32", "float32", "rank 0", "rank 1", "tag any"}},
	{"a send's buffer changed", func(c *banyan.Comm) error {
		buf := []int64{1, 2, 3}
		if c.Rank() == 0 {
			_, err := banyan.Recv(c, buf, 1, 5)
			return err
		}
		r := banyan.Isend(c, buf, 0, 5)
		buf[1] = 7
		_, err := r.Wait()
		return err
	}, []string{"Send(dst 0, tag 5, 24 bytes)", "changed the buffer", "debug_test.go:"}},
	{"a receive's buffer changed", func(c *banyan.Comm) error {
		buf := []int64{1, 2, 3}
		if c.Rank() == 0 {
			return banyan.Send(c, buf, 1, 5)
		}
		r := banyan.Irecv(c, buf, 0, 5)
		buf[1] = 7
		_, _, err := banyan.WaitAny([]banyan.Request{r})
		return err
	}, []string{"Recv(src 0, tag 5)", "changed the buffer", "debug_test.go:"}},
	{"a persistent buffer changed", func(c *banyan.Comm) error {
		buf := make([]byte, 8)
		if c.Rank() == 0 {
			_, err := c.Recv(buf, 1, 5)
			return err
		}
		p := c.SendInit(buf, 0, 5)
		p.Start()
		buf[0] = 1
		_, err := p.Wait()
		return err
	}, []string{"Send(dst 0, tag 5, 8 bytes)", "changed the buffer"}},
}

func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		for _, debug := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, debug %v", m.name, debug), func(t *testing.T) {
				found := [2]error{}
				options := []banyan.Option{banyan.WithDebug(debug)}
				if err := banyan.Simulate(2, banyan.Simulation{Options: options}, func(w *banyan.World) error {
					found[w.Comm().Rank()] = m.body(w.Comm())
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if err := found[0]; err != nil {
					t.Errorf("rank 0: %v", err)
				}
				if err := found[1]; !debug {
					if err != nil {
						t.Errorf("without debug: %v", err)
					}
					return
				}
				if !errors.Is(found[1], banyan.ErrArgument) {
					t.Fatalf("got %v, want ErrArgument", found[1])
				}
				for _, want := range m.want {
					if !strings.Contains(found[1].Error(), want) {
						t.Errorf("%q is not in: %v", want, found[1])
					}
				}
			})
		}
	}
}

// TestRightProgramUnderDebug: lengths, wildcards, truncation, probes and cancellation are as without.
func TestRightProgramUnderDebug(t *testing.T) {
	err := banyan.Simulate(2, banyan.Simulation{Options: []banyan.Option{banyan.WithDebug(true)}}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			return errors.Join(banyan.Send(c, []float64{1, 2}, 1, 1), c.Ssend([]byte("probed"), 1, 2),
				c.Send([]byte("matched"), 1, 3), c.Send(make([]byte, 1<<20), 1, 4), c.Send([]byte("too long"), 1, 5), c.Barrier())
		}
		numbers := make([]float64, 3)
		st, err := banyan.Recv(c, numbers, banyan.AnySource, banyan.AnyTag)
		if err != nil || st != (banyan.Status{Source: 0, Tag: 1, Count: 2}) || numbers[1] != 2 {
			return fmt.Errorf("recv: %v %v %v", st, numbers, err)
		}
		if st, err = c.Probe(banyan.AnySource, 2); err != nil || st.Count != 6 {
			return fmt.Errorf("probe: %v %v", st, err)
		}
		buf := make([]byte, 6)
		if _, err = c.Recv(buf, 0, 2); err != nil || string(buf) != "probed" {
			return fmt.Errorf("recv: %q %v", buf, err)
		}
		m, err := c.Mprobe(0, 3)
		if err != nil || m.Status().Count != 7 {
			return fmt.Errorf("mprobe: %v", err)
		}
		buf = make([]byte, m.Status().Count)
		if st, err = m.Recv(buf); err != nil || string(buf) != "matched" || st.Count != 7 {
			return fmt.Errorf("recv of a message: %q %v %v", buf, st, err)
		}
		if st, err = c.Recv(make([]byte, 1<<20), 0, 4); err != nil || st.Count != 1<<20 {
			return fmt.Errorf("long: %v %v", st, err)
		}
		buf = make([]byte, 3)
		if st, err = c.Recv(buf, 0, 5); !errors.Is(err, banyan.ErrTruncate) || st.Count != 3 || string(buf) != "too" {
			return fmt.Errorf("truncated: %q %v %v", buf, st, err)
		}
		if st, err = c.Recv(buf, banyan.ProcNull, 5); err != nil || st.Source != banyan.ProcNull || st.Count != 0 {
			return fmt.Errorf("null: %v %v", st, err)
		}
		r := c.Irecv(buf, 0, 6)
		if _, done, err := r.Test(); done || err != nil {
			return fmt.Errorf("test: %v %v", done, err)
		}
		r.Cancel()
		if st, err = r.Wait(); err != nil || !st.Cancelled {
			return fmt.Errorf("cancel: %v %v", st, err)
		}
		return c.Barrier()
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLeftAtFinalize: requests that were not waited for, and communicators that were not freed.
func TestLeftAtFinalize(t *testing.T) {
	for _, debug := range []bool{false, true} {
		text := standardError(t, func() error {
			options := []banyan.Option{banyan.WithDebug(debug)}
			return banyan.Simulate(1, banyan.Simulation{Options: options}, func(w *banyan.World) error {
				c := w.Comm()
				freed, err := c.Dup()
				if err != nil {
					return err
				}
				if _, err = c.Dup(); err != nil {
					return err
				}
				banyan.Irecv(c, make([]int16, 3), 0, 9)
				r := c.Irecv(make([]byte, 3), 0, 8)
				banyan.Iallreduce(c, make([]float64, 2), make([]float64, 2), banyan.Sum)
				ended, agreed := c.Ibarrier(), c.Iagree(1)
				c.Ibcast(make([]byte, 7), 0)
				c.Iagree(3)
				_, err = agreed.Wait()
				reqs := []banyan.Request{r, ended}
				return errors.Join(err, c.Send(nil, 0, 8), banyan.WaitAll(reqs), freed.Free())
			})
		})
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if !debug {
			if text != "" {
				t.Errorf("without debug: %s", text)
			}
			continue
		}
		wants := []string{"communicator world.2, not freed", "recv of 6 bytes (int16) from 0, tag 9 on world",
			"Iallreduce of 16 bytes in elements of 8 (float64) with banyan.Sum by Iallreduce on world",
			"Ibcast of 7 bytes with root 0 by Comm.Ibcast on world", "Agree by Comm.Iagree on world"}
		if len(lines) != len(wants) {
			t.Fatalf("want %d lines: %s", len(wants), text)
		}
		for i, want := range wants {
			if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "debug_test.go:") {
				t.Errorf("want %q and the place: %s", want, lines[i])
			}
		}
	}
}

// standardError returns the text that fn prints there.
func standardError(t *testing.T, fn func() error) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	real := os.Stderr
	os.Stderr = f
	err = fn()
	os.Stderr = real
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLeftCollectivesUnderDebug: the comparison of a collective waits for one that its caller has left.
func TestLeftCollectivesUnderDebug(t *testing.T) {
	t.Setenv("BANYAN_DEBUG", "on")
	TestProcessesLeaveCollectives(t)
}

type task struct{ first, last int32 }

type result struct{ Sum float64 }

// A value of another type names both types under the debug setting; one of the same type, of a plain type and of one
// that is encoded, comes as without.
func TestTypesOfValues(t *testing.T) {
	for _, debug := range []bool{false, true} {
		options := []banyan.Option{banyan.WithDebug(debug)}
		require.NoError(t, banyan.Simulate(2, banyan.Simulation{Options: options}, func(w *banyan.World) error {
			c := w.Comm()
			if c.Rank() == 0 {
				return errors.Join(banyan.SendValue(c, task{1, 2}, 1, 5), banyan.SendValue(c, task{1, 2}, 1, 5),
					banyan.SendValue(c, task{3, 4}, 1, 5), banyan.SendValue(c, map[string]int{"a": 7}, 1, 5),
					banyan.SendValue(c, strings.Repeat("x", 100), 1, 5), banyan.SendValue(c, strings.Repeat("x", 64<<20), 1, 5))
			}
			for _, got := range []error{
				ignore(banyan.RecvValue[result](c, 0, 5)), ignore(banyan.RecvValue[map[string]int](c, 0, 5)),
			} {
				require.ErrorIs(t, got, banyan.ErrEncoding)
				require.Equal(t, debug, strings.Contains(got.Error(), "sent as messages.task, received as "), "%v", got)
			}
			one, st, err := banyan.RecvValue[task](c, 0, 5)
			require.NoError(t, err)
			require.Equal(t, task{3, 4}, one)
			require.Equal(t, 16, st.Count)
			all, _, err := banyan.RecvValue[map[string]int](c, 0, 5)
			require.NoError(t, err)
			require.Equal(t, map[string]int{"a": 7}, all)
			_, _, err = banyan.RecvValue[string](c, 0, 5, banyan.WithValueLimit(50))
			require.ErrorIs(t, err, banyan.ErrTruncate)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err = banyan.RecvValue[string](c, 0, 5)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, banyan.ErrTruncate)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "a message beyond the limit takes no memory")
			return nil
		}))
	}
}

func ignore[T any](_ T, _ banyan.Status, err error) error { return err }
