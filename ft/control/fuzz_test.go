package control

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// fuzzJob is a job of three in which process 1 sends any frames of one class to process 0 and
// departs; process 2 receives the consequences.
type fuzzJob struct {
	class  fabric.Class
	frames [][]byte // the first byte is the immediate
	// start makes process 0 listen; its listeners to ends come later; look is called when process 1
	// has ended.
	start func(e *progress.Engine, out *Outbox)
	look  func()

	ended  []proc.Cause // of process 1
	spread int          // frames at process 2
}

// script decodes frames from a fuzzer's input: immediate, length, bytes.
func script(b []byte) (frames [][]byte) {
	for len(b) >= 2 && len(frames) < 64 {
		n := min(int(b[1]), len(b)-2)
		frames = append(frames, append([]byte{b[0]}, b[2:2+n]...))
		b = b[2+n:]
	}
	return frames
}

// frames encodes the input of script.
func frames(all ...[]byte) (b []byte) {
	for _, f := range all {
		b = append(append(b, f[0], byte(len(f)-1)), f[1:]...)
	}
	return b
}

func (x *fuzzJob) run(t *testing.T) {
	s, err := sim.New(sim.DefaultConfig(3))
	require.NoError(t, err)
	for id, body := range []func(p *sim.Proc, e *progress.Engine){x.victim, x.talker, x.bystander} {
		require.NoError(t, s.Spawn(proc.ID(id), func(p *sim.Proc) {
			e := progress.New(progress.Config{
				Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
				Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
			})
			body(p, e)
			e.Depart()
			_ = e.Close()
		}))
	}
	require.NoError(t, s.Run())
	require.Len(t, x.ended, 1)
}

func (x *fuzzJob) victim(_ *sim.Proc, e *progress.Engine) {
	var left progress.Completion
	out := NewOutbox(e, nil)
	x.start(e, out)
	e.OnEnd(func(ep *progress.Endpoint, cause proc.Cause) {
		if ep.Proc == 1 {
			x.ended = append(x.ended, cause)
			left.Finish()
		}
	})
	e.Lock()
	defer e.Unlock()
	e.Wait(&left)
	out.Flush(second)
	x.look()
	out.Stop()
}

func (x *fuzzJob) talker(_ *sim.Proc, e *progress.Engine) {
	ep, err := e.Endpoint(0)
	if err != nil {
		return
	}
	e.Lock()
	defer e.Unlock()
	for _, f := range x.frames {
		ep.TrySend(x.class, uint64(f[0]), f[1:])
	}
}

func (x *fuzzJob) bystander(_ *sim.Proc, e *progress.Engine) {
	e.Handle(x.class, func(proc.ID, uint64, []byte) { x.spread++ })
	var left progress.Completion
	e.OnEnd(func(ep *progress.Endpoint, _ proc.Cause) {
		if ep.Proc == 0 {
			left.Finish()
		}
	})
	e.Lock()
	defer e.Unlock()
	e.After(10*second, left.Finish) // 0 may have nothing to send
	e.Wait(&left)
}

// FuzzRevoke: a member sends any revocations. The remembered, awaited and forwarded ones are
// bounded by the sent ones, and it is never cut off: an unknown frame may be of a newer version.
func FuzzRevoke(f *testing.F) {
	say := func(notices ...notice) []byte {
		b := []byte{0}
		for _, n := range notices {
			b = n.append(b)
		}
		return b
	}
	f.Add(frames(say(notice{jobContext, 1, 0}), say(notice{jobContext, rootAbsent, 7})))
	f.Add(frames(say(notice{jobContext, rootFlood, ^uint64(0)}, notice{6, 3, 0}, notice{jobContext, 1 << 31, 1})))
	f.Add(frames([]byte{0, 1, 2, 3}, say(notice{9, rootAbsent, 0}), append(say(notice{jobContext, 2, 0}), 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &fuzzJob{class: fabric.ClassRevoke, frames: script(b)}
		var r *Revocations
		revoked, waits, notices := false, 0, 0
		x.start = func(e *progress.Engine, out *Outbox) {
			r = StartRevocations(e, out, func(context uint32) (known, news bool) {
				if context != jobContext {
					return false, false
				}
				news, revoked = !revoked, true
				if news {
					r.Notify(context, all(3))
				}
				return true, news
			}, func(uint32) { waits++ })
		}
		x.look = func() {
			r.recordRecent()
			if !revoked {
				require.Empty(t, r.records)
			}
			require.LessOrEqual(t, len(r.records), 1)
		}
		x.run(t)
		told := false
		for _, f := range x.frames {
			for at := 1; at+noticeBytes <= len(f); at += noticeBytes {
				notices++
				told = told || binary.LittleEndian.Uint32(f[at:]) == jobContext &&
					binary.LittleEndian.Uint32(f[at+4:]) != rootAbsent
			}
		}
		require.Equal(t, told, revoked)
		require.LessOrEqual(t, waits, notices)
		require.LessOrEqual(t, x.spread, 2*notices)
		require.Equal(t, proc.Departed, x.ended[0].Kind)
	})
}

// FuzzAgree: a member sends any pieces of any agreement frames. It departs if nothing was
// malformed, is cut off otherwise, or has failed if its frame names itself; the kept pieces are
// bounded and released when it ends.
func FuzzAgree(f *testing.F) {
	up := append([]byte{0, 1, 0, 3, 5, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0}, 1, 2)
	f.Add(frames(up))
	f.Add(frames(append([]byte{more}, up[1:8]...), append([]byte{0}, up[8:]...)))
	f.Add(frames([]byte{more}, []byte{more, 1}, []byte{0}))
	f.Add([]byte("1\a\x0100\x05\x00\x00\x0000\t\x00\x00\x00\x02\x02\x02\x02\x02\x02\x00\x00")) // it has failed
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &fuzzJob{class: fabric.ClassAgree, frames: script(b)}
		var a *Agreements
		decided := 0
		x.start = func(e *progress.Engine, out *Outbox) {
			a = StartAgreements(e, agree.Binomial, out, nil)
			e.Lock()
			defer e.Unlock()
			line := agree.GroupKey{Context: 5, Group: 9}
			require.NoError(t, a.Open(line, all(3)))
			and := func(acc, in []byte) { acc[0] &= in[0]; acc[1] &= in[1] }
			p := agree.Proposal{What: 3, Value: []byte{1, 1}, Op: and, Then: func(d *agree.Decision) {
				decided++
				require.True(t, d.Mismatch || len(d.Value) == 2)
			}}
			require.NoError(t, a.Propose(line, p))
		}
		x.look = func() { require.Empty(t, a.in.parts) }
		x.run(t)
		require.LessOrEqual(t, decided, 1)
		require.Contains(t, []proc.Kind{proc.Departed, proc.Corrupt, proc.Unknown}, x.ended[0].Kind)
	})
}

// FuzzPieces: for any pieces, a frame consists of those since the frame before, and no more is kept
// than a frame may have.
func FuzzPieces(f *testing.F) {
	f.Add(frames([]byte{more, 1, 2}, []byte{0, 3}, []byte{0, 4}))
	f.Add(frames([]byte{more}, append([]byte{more}, make([]byte, 60)...),
		append([]byte{3}, make([]byte, 60)...), []byte{0, 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 100
		in := inbox{longest: most}
		var want []byte
		for _, piece := range script(b) {
			sender := proc.ID(piece[0] >> 7)
			frame, ok := in.take(sender, uint64(piece[0]), piece[1:])
			require.LessOrEqual(t, len(in.parts[0])+len(in.parts[1]), 2*most)
			if sender != 0 {
				continue
			}
			want = append(want, piece[1:]...)
			switch {
			case !ok:
				require.Greater(t, len(want), most)
				want = nil
			case piece[0]&more == 0:
				require.True(t, slices.Equal(want, frame))
				want = nil
			default:
				require.Nil(t, frame)
			}
		}
	})
}

// FuzzDetect: a process sends anything to the failure detector of another one: it departs or is cut
// off, and no process is condemned for silence. A report of failures is believed, even of the
// sender and of the receiver.
func FuzzDetect(f *testing.F) {
	f.Add(frames([]byte{0, 1, 0}, []byte{0, 6}, []byte{0, 4, 1, 1, 2}))
	f.Add(frames([]byte{0, 2, 2, 0, 1, 2, byte(proc.Signaled), 18}))
	f.Add(frames([]byte{0}, []byte{9, 9}))
	f.Add([]byte("00\x02\x02\x00\x01\x00\x03\x12")) // the receiver has failed
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &fuzzJob{class: fabric.ClassDetect, frames: script(b)}
		const tell = 2 // ft/detect/wire.go
		reports := slices.ContainsFunc(x.frames, func(f []byte) bool { return len(f) > 1 && f[1] == tell })
		var p *Driver
		x.start = func(e *progress.Engine, _ *Outbox) {
			p = Start(Config{
				Engine: e, Detect: detect.Config{Self: 0, Procs: 3, Period: DefaultPeriod, Timeout: DefaultTimeout},
				Die:       func(why error) { require.True(t, reports, "%v", why) },
				Condemned: func(peer proc.ID, silent fabric.Time, _ bool) { require.Zero(t, silent, "%v", peer) },
			})
		}
		x.look = func() {
			p.e.Unlock()
			p.Stop()
			p.e.Lock()
		}
		x.run(t)
		if !reports {
			require.Contains(t, []proc.Kind{proc.Departed, proc.Corrupt}, x.ended[0].Kind)
		}
	})
}
