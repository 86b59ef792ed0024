package pmi

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// desk drives a server without connections.
type desk struct {
	t testing.TB
	*Server
	waits map[int]*barrier
}

func newDesk(t testing.TB, n int, timeout time.Duration) *desk {
	d := &desk{t, NewServer("k", n, timeout), map[int]*barrier{}}
	t.Cleanup(d.Stop)
	return d
}

// say sends a request and returns the reply, "…" while there is none.
func (d *desk) say(rank int, line string) string {
	m, err := Parse(line)
	require.NoError(d.t, err)
	out, err := d.handle(rank, m)
	if err != nil {
		return "error: " + err.Error()
	}
	if out.wait != nil {
		d.waits[rank] = out.wait
		return d.answer(rank)
	}
	return strings.TrimSuffix(out.reply, "\n")
}

// answer returns the reply to a rank in the barrier.
func (d *desk) answer(rank int) string {
	select {
	case <-d.waits[rank].done:
	default:
		return "…"
	}
	m := &MissingError{Lost: d.waits[rank].lost, Total: len(d.waits[rank].lost)}
	if m.Total == 0 {
		return "out"
	}
	return strings.TrimPrefix(m.Error(), "launch: ")
}

const sayInit = "cmd=init pmi_version=1 pmi_subversion=1"

func (d *desk) initAll() *desk {
	for r := range d.peers {
		require.Contains(d.t, d.say(r, sayInit), "rc=0")
	}
	return d
}

func TestServerRequests(t *testing.T) {
	d := newDesk(t, 2, time.Hour).initAll()
	long := strings.Repeat("x", 2000)
	for _, c := range []struct{ line, want string }{
		{"cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"},
		{"cmd=get_appnum", "cmd=appnum rc=0 appnum=0"},
		{"cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=k"},
		{"cmd=get_universe_size", "cmd=universe_size rc=0 size=2"},
		{"cmd=get kvsname=k key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))"},
		{"cmd=put kvsname=k key=a value=1", "cmd=put_result rc=0 msg=success"},
		{"cmd=put kvsname=k key=a value=2", "cmd=put_result rc=-1 msg=duplicate_key"},
		{"cmd=put kvsname=other key=b value=2", "cmd=put_result rc=-1 msg=unknown_kvsname"},
		{"cmd=put kvsname=k value=2", "cmd=put_result rc=-1 msg=key_or_value_too_long"},
		{"cmd=put kvsname=k key=b value=" + long, "cmd=put_result rc=-1 msg=key_or_value_too_long"},
		{"cmd=get kvsname=k key=a", "cmd=get_result rc=0 msg=success value=1"},
		{"cmd=get kvsname=k key=b", "cmd=get_result rc=-1 msg=key_not_found"},
		{"cmd=create_kvs", "cmd=newkvs rc=-1 msg=one_key-value_space_only"},
		{"cmd=destroy_kvs", "cmd=kvs_destroyed rc=-1 msg=one_key-value_space_only"},
		{"cmd=getbyidx", "cmd=getbyidx_results rc=-1 msg=not_supported"},
		{"cmd=lookup_name service=x", "cmd=lookup_result rc=-1 info=not_supported msg=not_supported"},
		{"mcmd=spawn totspawns=2 spawnssofar=1", ""},
		{"mcmd=spawn totspawns=2 spawnssofar=2", "cmd=spawn_result rc=-1 msg=spawning_is_not_supported"},
		{sayInit, "error: cmd=init a second time: one process of a rank joins, once"},
		{"cmd=dance", `error: cmd="dance" is no request of PMI-1`},
		{"cmd=abort exitcode=x", `error: cmd=abort with exitcode="x", which is no number`},
		{"cmd=finalize", "cmd=finalize_ack rc=0"},
		{"cmd=get_maxes", `error: cmd="get_maxes" outside of init and finalize`},
	} {
		require.Equal(t, c.want, d.say(0, c.line), c.line)
	}
	require.Contains(t, newDesk(t, 1, time.Hour).say(0, "cmd=init pmi_version=2 pmi_subversion=0"), "rc=-1")
}

func TestServerBoundsWhatARankPublishes(t *testing.T) {
	d := newDesk(t, 1, time.Hour).initAll()
	value := strings.Repeat("x", ValueMax)
	puts := 0
	for i := range kvBytesMax {
		if strings.Contains(d.say(0, "cmd=put kvsname=k key=k-"+strconv.Itoa(i)+" value="+value), "too_much") {
			break
		}
		puts++
	}
	require.Less(t, puts, kvBytesMax/ValueMax)
	require.Greater(t, puts, kvBytesMax/ValueMax/2)
}

const in = "cmd=barrier_in"

func TestBarriers(t *testing.T) {
	t.Run("all, twice", func(t *testing.T) {
		d := newDesk(t, 3, time.Hour).initAll()
		for range 2 {
			require.Equal(t, "…", d.say(0, in))
			require.Equal(t, "…", d.say(2, in))
			require.Equal(t, "out", d.say(1, in))
			require.Equal(t, "out", d.answer(0))
		}
		require.Nil(t, d.Failure())
	})
	t.Run("twice inside", func(t *testing.T) {
		d := newDesk(t, 2, time.Hour).initAll()
		d.say(0, in)
		require.Contains(t, d.say(0, in), "error: ")
	})
	t.Run("death completes it among the living", func(t *testing.T) {
		d := newDesk(t, 3, time.Hour).initAll()
		d.say(0, in)
		d.say(1, in)
		require.Equal(t, "out", d.say(2, in))
		require.Equal(t, "…", d.say(0, in))
		d.Lose(2, "was killed by SIGKILL")
		require.Equal(t, "…", d.answer(0))
		require.Equal(t, "rank 2 was killed by SIGKILL", d.say(1, in))
		require.Equal(t, "rank 2 was killed by SIGKILL", d.answer(0))
		require.Equal(t, "…", d.say(0, in))
		require.Equal(t, "rank 2 was killed by SIGKILL", d.say(1, in))
	})
	t.Run("who died inside has arrived", func(t *testing.T) {
		d := newDesk(t, 2, time.Hour).initAll()
		d.say(0, in)
		d.say(1, in)
		d.say(1, in)
		d.Lose(1, "was killed by SIGKILL")
		require.Equal(t, "out", d.say(0, in))
		require.Equal(t, "rank 1 was killed by SIGKILL", d.say(0, in))
	})
	t.Run("departure is no failure", func(t *testing.T) {
		d := newDesk(t, 2, time.Hour).initAll()
		d.say(0, in)
		d.say(1, in)
		require.Equal(t, "…", d.say(0, in))
		d.say(1, "cmd=finalize")
		require.Equal(t, "out", d.answer(0))
		finalized, joined := d.Lose(1, "exited with code 0")
		require.True(t, finalized && joined)
		require.Equal(t, "out", d.say(0, in))
	})
}

func TestStartUp(t *testing.T) {
	t.Run("start-up without one who finalized", func(t *testing.T) {
		d := newDesk(t, 2, time.Hour).initAll()
		d.say(1, "cmd=finalize")
		require.Equal(t, "rank 1 finalized before the first barrier", d.say(0, in))
	})
	t.Run("start-up fails for all alike, also later", func(t *testing.T) {
		d := newDesk(t, 4, time.Hour)
		d.say(0, sayInit)
		require.Equal(t, "…", d.say(0, in))
		d.Lose(2, "exited with code 127")
		want := "rank 2 exited with code 127 before it joined"
		require.Equal(t, want, d.answer(0))
		d.say(3, sayInit)
		require.Equal(t, want, d.say(3, in))
		require.Equal(t, want, d.say(0, in))
		require.EqualError(t, d.Failure(), "launch: "+want)
	})
	t.Run("death between init and the first barrier", func(t *testing.T) {
		d := newDesk(t, 2, time.Hour).initAll()
		d.Lose(1, "was killed by SIGSEGV")
		require.Equal(t, "rank 1 was killed by SIGSEGV before the first barrier", d.say(0, in))
	})
	t.Run("time runs out", func(t *testing.T) {
		d := newDesk(t, 4, time.Hour)
		d.say(0, sayInit)
		d.say(1, sayInit)
		d.expire()
		require.Equal(t, "rank 2 has not joined within 1h0m0s; rank 3 has not joined within 1h0m0s", d.say(0, in),
			"rank 1 has joined and is not blamed")
	})
	t.Run("time is for joining", func(t *testing.T) {
		d := newDesk(t, 2, time.Hour).initAll()
		d.say(0, in)
		d.expire()
		require.Equal(t, "…", d.answer(0))
		require.Equal(t, "out", d.say(1, in))
	})
}

// FuzzServer lets three ranks send anything in any order: the server neither panics nor completes a
// barrier that a live rank has not entered.
func FuzzServer(f *testing.F) {
	f.Add("0 " + sayInit + "\n1 " + sayInit + "\n2 " + sayInit + "\n0 cmd=barrier_in\n1 cmd=barrier_in\n2 cmd=finalize\n")
	f.Add("0 " + sayInit + "\n1 lose\n0 cmd=barrier_in\nexpire\n2 " + sayInit + "\n2 cmd=put kvsname=k key=a value=b\n2 cmd=barrier_in")
	f.Add("0 " + sayInit + "\n1 " + sayInit + "\n2 " + sayInit + "\n0 cmd=barrier_in\n1 cmd=barrier_in\n2 cmd=barrier_in\n0 cmd=barrier_in\n" +
		"0 cmd=put kvsname=k key=" + LostKey(1, 0) + " value=1\n2 cmd=put kvsname=k key=" + LostKey(2, 2) + " value=1\n1 cmd=barrier_in")
	f.Fuzz(func(t *testing.T, text string) {
		s := NewServer("k", 3, time.Hour)
		defer s.Stop()
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if line == "expire" && !s.IsOverdue() {
				s.expire()
			}
			if len(line) < 2 || line[0] < '0' || line[0] > '2' || line[1] != ' ' {
				continue
			}
			rank := int(line[0] - '0')
			if line[2:] == "lose" {
				s.Lose(rank, "was killed")
			} else if m, err := Parse(line[2:]); err == nil {
				if _, err := s.handle(rank, m); err != nil {
					s.Lose(rank, "was cut off")
				}
			}
			checkCounts(t, s)
		}
	})
}

func checkCounts(t *testing.T, s *Server) {
	var arrived, absent, waiting int
	for _, p := range s.peers {
		gone := p.phase == departed || p.phase == lostPhase
		switch {
		case p.arrived:
			arrived++
		case gone:
			absent++
		}
		if p.phase == starting {
			waiting++
		}
	}
	require.Equal(t, [3]int{arrived, absent, waiting}, [3]int{s.arrived, s.absent, s.waiting})
	if s.started {
		require.Less(t, arrived, len(s.peers)-absent+1)
	}
}

// script is a connection from which requests are read.
type script struct {
	io.Reader
	closed bool
}

func (s *script) Write(p []byte) (int, error) { return len(p), nil }
func (s *script) Close() error                { s.closed = true; return nil }

// FuzzSession lets one rank write anything: its session ends, in order only after a finalize, and
// closes the connection.
func FuzzSession(f *testing.F) {
	f.Add(sayInit + "\ncmd=barrier_in\ncmd=put kvsname=k key=a value=b\ncmd=finalize\n")
	f.Add("mcmd=spawn\ntotspawns=1\nspawnssofar=1\nendcmd\n")
	f.Add(sayInit + "\ncmd=abort exitcode=1 message=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := NewServer("k", 1, time.Hour)
		defer s.Stop()
		conn := &script{Reader: strings.NewReader(text)}
		exited, drained := make(chan struct{}), make(chan struct{})
		close(exited)
		session := &Session{Server: s, Conn: conn, Exited: exited, Abort: func(int, string) {}, Cut: func(string) {}}
		session.Run(drained)
		<-drained
		require.True(t, conn.closed)
		if finalized, joined := s.Lose(0, "ended"); finalized {
			require.True(t, joined && strings.Contains(text, "finalize"))
		}
	})
}

// A range holds the values of consecutive ranks, nothing for those without, and as many as a reply
// of bounded length may have. Ranges that do not exist are refused, and nonsense ends the connection.
func TestServerRange(t *testing.T) {
	d := newDesk(t, 40, time.Hour).initAll()
	for _, rank := range []string{"0", "2", "3"} {
		require.Contains(t, d.say(0, "cmd=put kvsname=k key=b-card-"+rank+" value=v"+rank), "rc=0")
	}
	ask := func(first, count string) string {
		return d.say(1, "cmd=banyan_getrange kvsname=k prefix=b-card- first="+first+" count="+count)
	}
	require.Equal(t, "cmd=banyan_range rc=0 values=v0,,v2,v3,", ask("0", "5"))
	require.Equal(t, "cmd=banyan_range rc=0 values=", ask("39", "1"))
	for _, c := range [][2]string{{"-1", "2"}, {"0", "0"}, {"39", "2"}, {"0", "9999999999"}} {
		require.Contains(t, ask(c[0], c[1]), "rc=-1", c)
	}
	require.Contains(t, ask("x", "1"), "error")
	require.Contains(t, ask("0", ""), "error")
	long := strings.Repeat("x", ValueMax)
	for rank := range 40 {
		d.say(rank, "cmd=put kvsname=k key=b-long-"+strconv.Itoa(rank)+" value="+long)
	}
	line := d.say(1, "cmd=banyan_getrange kvsname=k prefix=b-long- first=0 count=40")
	require.Less(t, len(line), ReplyMax)
	require.Equal(t, (ReplyMax-256)/(ValueMax+1), strings.Count(line, long))
}

// Barriers end without a rank that another one has given up, from some time later on; other keys have no effect.
func TestLostKey(t *testing.T) {
	d := newDesk(t, 3, time.Minute).initAll()
	d.grace = time.Millisecond
	put := func(by int, key string) {
		require.Contains(t, d.say(by, "cmd=put kvsname=k key="+key+" value=1"), "rc=0")
	}
	for r := range 3 {
		d.say(r, "cmd=barrier_in")
	}
	for i, key := range []string{"banyan-lost-", "banyan-lost-3-0", "banyan-lost--1-0", "banyan-lost-x-0", "lost-1-0"} {
		put(i%2, key)
	}
	require.Equal(t, "…", d.say(0, "cmd=barrier_in"))
	require.Equal(t, "…", d.say(2, "cmd=barrier_in"))
	require.Empty(t, d.graces)
	put(0, LostKey(1, 0))
	require.True(t, d.GivenUp(1))
	for _, r := range []int{0, 2} {
		<-d.waits[r].done
		require.Contains(t, d.answer(r), "rank 1 counts as failed at the others")
	}
	put(2, LostKey(1, 2))
	require.Len(t, d.graces, 1)
	require.Contains(t, d.say(1, "cmd=barrier_in"), "after it was given up")
	require.Equal(t, "…", d.say(0, "cmd=barrier_in"))
	require.NotEqual(t, "…", d.say(2, "cmd=barrier_in"))
}

// A rank that ends in that time is taken out at once.
func TestLostKeyOfARankThatEnds(t *testing.T) {
	d := newDesk(t, 2, time.Minute).initAll()
	d.say(0, "cmd=barrier_in")
	d.say(1, "cmd=barrier_in")
	require.Contains(t, d.say(0, "cmd=put kvsname=k key="+LostKey(1, 0)+" value=1"), "rc=0")
	require.Equal(t, "…", d.say(0, "cmd=barrier_in"))
	d.Lose(1, "was killed")
	require.Contains(t, d.answer(0), "rank 1 was killed")
}

func TestJoining(t *testing.T) {
	d := newDesk(t, 2, time.Hour)
	check := func(joined int, over bool) {
		t.Helper()
		n, all := d.Joining()
		require.Equal(t, []any{joined, over}, []any{n, all})
	}
	check(0, false)
	d.say(1, sayInit)
	check(1, false)
	d.say(0, sayInit)
	check(2, false)
	d.say(0, in)
	d.say(1, in)
	check(2, true)
	failed := newDesk(t, 2, time.Hour)
	failed.say(0, sayInit)
	failed.say(0, in)
	failed.Lose(1, "died")
	_, over := failed.Joining()
	require.True(t, over)
}
