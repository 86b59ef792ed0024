package transcripts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A transcript is a file under testdata with the steps of the ranks,
// one after another, and the required results:
//
//	ranks 2
//	rank 0: isend to 1 tag 5 data abc as s
//	rank 1: recv from any tag any -> from 0 tag 5 data abc
//	rank 0: wait s -> sent
//
// A step begins when the one before has ended. The verbs are the methods of
// session, and these:
//
//	kill 1                   # by SIGKILL
//	stop 1 / continue 1      # by signal
//	rank 0: begin barrier    # which blocks: the next step does not wait for it
//	rank 0: end -> ok        # its result
//	rank 0: finalize         # its last step
//
// Each transcript is run in the simulator and on real processes, if its head does not
// say "simulated" (its results depend on the simulator's clock, or on Finalize not
// waiting for the others) or "real" (there is no stop in the simulator). Other lines of
// the head: "detector" (real ranks always have one), "eager N" (the limit), "streamed" (no
// copies out of the sender's memory), and "unborn 2" (rank 2 dies as soon as it has joined).
//
// # Why not datadriven
//
// github.com/cockroachdb/datadriven was looked at for these files: they would be the worse for it.
// It puts the result of a command under the command, behind a line of dashes. With a step to a
// command each step is four lines, so that six hundred lines become two thousand, for answers
// that are mostly "ok" and rarely longer than three words; with a section to a command the
// answers stand apart from their steps, and which belongs to which has to be counted. It
// compares when the steps have been carried out, but a step must know its answer before: a
// message takes its time, so "pending" and "none" are asked again unless they are wanted. Its
// callback drives the test, where in the simulator the simulator drives. And its gain, to have
// the answers written from a run, is none here: they come from the documents. It would
// save is the forty lines of readTranscript.
type transcript struct {
	ranks             int
	simulated, real   bool
	detector, streams bool
	eager             int
	unborn            int // none: -1
	steps             []step
}

type step struct {
	line       int
	rank       int
	signal     syscall.Signal // instead of a verb
	verb, want string
}

func readTranscript(t *testing.T, path string) *transcript {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	tr := &transcript{unborn: -1}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) > 0 && !tr.head(f) && !tr.step(i+1, f) {
			t.Fatalf("%s:%d: not a step: %q", path, i+1, line)
		}
	}
	require.False(t, tr.simulated && tr.real, "%s is run nowhere", path)
	return tr
}

// head reads a line of the head.
func (tr *transcript) head(f []string) bool {
	flags := map[string]*bool{"simulated": &tr.simulated, "real": &tr.real, "detector": &tr.detector,
		"streamed": &tr.streams}
	numbers := map[string]*int{"ranks": &tr.ranks, "eager": &tr.eager, "unborn": &tr.unborn}
	switch flag, number := flags[f[0]], numbers[f[0]]; {
	case flag != nil && len(f) == 1:
		*flag = true
		return true
	case number != nil && len(f) == 2:
		_, err := fmt.Sscan(f[1], number)
		return err == nil
	}
	return false
}

var signals = map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP, "continue": syscall.SIGCONT}

// step reads a step.
func (tr *transcript) step(line int, f []string) bool {
	s := step{line: line, signal: signals[f[0]]}
	who := f[len(f)-1]
	if s.signal == 0 {
		if len(f) < 3 || f[0] != "rank" {
			return false
		}
		var ok bool
		who = strings.TrimSuffix(f[1], ":")
		if s.verb, s.want, ok = strings.Cut(strings.Join(f[2:], " "), " -> "); !ok {
			s.want = "ok"
		}
	}
	var err error
	s.rank, err = strconv.Atoi(who)
	if err != nil || s.rank < 0 || s.rank >= tr.ranks || tr.over(s.rank) {
		return false
	}
	tr.steps = append(tr.steps, s)
	return true
}

// over reports whether a rank can take no further step.
func (tr *transcript) over(rank int) bool {
	return rank == tr.unborn || slices.ContainsFunc(tr.steps, func(s step) bool {
		return s.rank == rank && (s.signal == syscall.SIGKILL || s.verb == "finalize")
	})
}

func transcripts(t *testing.T, run func(t *testing.T, tr *transcript)) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { run(t, readTranscript(t, path)) })
	}
}

// dead reports whether a rank is to die.
func (tr *transcript) dead(rank int) bool {
	return rank == tr.unborn || slices.ContainsFunc(tr.steps, func(s step) bool {
		return s.rank == rank && s.signal == syscall.SIGKILL
	})
}

// early reports whether an answer may still change into the required one.
func (s *step) early(got string) bool {
	return got != s.want && (got == "none" || got == "pending" || s.verb == "failed")
}

// patience is the number of times that an early step is repeated.
const patience = 1_000_000

// meets compares a step's answer with the required one.
func (s *step) meets(got string) error {
	if got != s.want {
		return fmt.Errorf("line %d: rank %d: %s\n\twant %s\n\tgot  %s", s.line, s.rank, s.verb, s.want, got)
	}
	return nil
}

// stage is a transcript in the simulator, which runs one rank at a time.
type stage struct {
	*transcript
	machine *sim.Sim
	turn    int // of the steps
}

func (st *stage) simulation() banyan.Simulation {
	opts := []banyan.Option{banyan.WithAsyncProgress(true), banyan.WithEagerLimit(st.eager)}
	if st.detector {
		opts = append(opts, banyan.WithDetection(200*time.Millisecond, time.Second))
	}
	return banyan.Simulation{
		Options:   opts,
		Configure: func(c *sim.Config) { c.Get = c.Get && !st.streams },
		Faults: func(s *sim.Sim) error {
			st.machine = s
			if st.unborn < 0 {
				return nil
			}
			return s.Kill(proc.ID(st.unborn), 0)
		},
	}
}

// play takes the steps of one rank.
func (st *stage) play(w *banyan.World) error {
	s, me, said := newSession(w), w.Comm().Rank(), ""
	for st.turn < len(st.steps) {
		at := &st.steps[st.turn]
		verb, blocks := strings.CutPrefix(at.verb, "begin ")
		switch {
		case at.signal != 0 && at.rank != me:
			st.turn++
			if err := st.machine.Kill(proc.ID(at.rank), st.machine.Now()); err != nil {
				return err
			}
		case at.signal != 0 || at.rank != me:
		case at.verb == "finalize":
			st.turn++
			return nil
		case blocks:
			st.turn++
			said = s.do(verb)
		default:
			got := said
			if at.verb != "end" {
				got = at.insist(func() { w.Sleep(time.Millisecond) }, s.do)
			}
			if err := at.meets(got); err != nil {
				st.turn = len(st.steps)
				return err
			}
			st.turn++
		}
		w.Sleep(time.Millisecond) // sent messages arrive
	}
	return nil
}

// insist carries out a step until its answer is not early; pause, if not nil, lets time pass.
func (s *step) insist(pause func(), do func(verb string) string) string {
	got := do(s.verb)
	for i := 0; i < patience && s.early(got); i++ {
		if s.verb == "failed" && pause != nil {
			pause() // the report of a death may take a while
		}
		got = do(s.verb)
	}
	return got
}

func TestTranscriptsSimulated(t *testing.T) {
	transcripts(t, func(t *testing.T, tr *transcript) {
		if tr.real {
			return
		}
		st := &stage{transcript: tr}
		require.NoError(t, banyan.Simulate(tr.ranks, st.simulation(), st.play))
		require.Equal(t, len(tr.steps), st.turn)
	})
}
