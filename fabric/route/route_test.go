package route

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const ptrace = 1 << unix.CAP_SYS_PTRACE

// plain is the card of an ordinary process, changed.
func plain(change ...func(*Card)) *Card {
	c := &Card{
		Node:    Node{Boot: [16]byte{1}, PIDs: 4026531836, Users: 4026531837, Net: 4026531833, UID: 1000, GID: 100},
		Allowed: All, Cores: []byte{0x0f},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Card)
		want   string // the fabrics that join
		why    string // of the first that does not
	}{
		"alike":           {func(*Card) {}, "shm,unix,tcp", ""},
		"another machine": {func(c *Card) { c.Node.Boot[3]++ }, "tcp", "not shm: different machines"},
		"another name":    {func(c *Card) { c.Node.Name = "b" }, "unix,tcp", `BANYAN_NODE differs ("", "b")`},
		"pid namespace": {func(c *Card) { c.Node.PIDs = 4026532201 }, "unix,tcp", "pid namespaces differ " +
			"(4026531836, 4026532201): run the containers with a shared pid namespace"},
		"user namespace":    {func(c *Card) { c.Node.Users++ }, "unix,tcp", "user namespaces differ"},
		"network namespace": {func(c *Card) { c.Node.Net++ }, "shm,tcp", "not unix: network namespaces differ"},
		"pod":               {func(c *Card) { c.Node.Net++; c.Node.PIDs++ }, "tcp", "pid namespaces differ"},
		"user":              {func(c *Card) { c.Node.UID = 0 }, "unix,tcp", "users differ (0:100, 1000:100)"},
		"group":             {func(c *Card) { c.Node.GID = 0 }, "unix,tcp", "users differ"},
		"capabilities":      {func(c *Card) { c.Node.Caps = 1 << 13 }, "unix,tcp", "capabilities differ (0x0, 0x2000)"},
		"one traces":        {func(c *Card) { c.Node.Caps = ptrace }, "unix,tcp", "capabilities differ"},
		"hidden":            {func(c *Card) { c.Node.Hidden = true }, "unix,tcp", "may not be looked into"},
		"no shm":            {func(c *Card) { c.Allowed = Sockets }, "unix,tcp", "one of the two may use verbs,unix,tcp only"},
		"tcp": {func(c *Card) { c.Allowed = Of(TCP) }, "tcp", "one of the two may use tcp only " +
			"(BANYAN_FABRIC"},
		"both restricted": {func(c *Card) { c.Allowed = Of(TCP) }, "tcp", "one of the two"},
		"adapters, one machine": {func(c *Card) { c.Adapter = "rxe0" }, "shm,unix,tcp",
			"not verbs: one of the two has no RDMA adapter"},
		"nothing in between": {func(c *Card) { c.Allowed, c.Node.Net = Of(Unix), 1 }, "", "may use unix only"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := plain(), plain(tc.change)
			there, back := Choose(a, b), Choose(b, a)
			var ok []string
			var why string
			last := -1
			for i, v := range there {
				require.Greater(t, int(v.Fabric), last, "the order of preference")
				last = int(v.Fabric)
				require.NotEmpty(t, v.Why)
				require.Equal(t, v, back[i], "both sides come to the same verdict")
				if v.OK {
					ok = append(ok, v.Fabric.String())
				} else if why == "" {
					why = v.String()
				}
			}
			require.Equal(t, tc.want, strings.Join(ok, ","))
			require.Contains(t, why, tc.why)
		})
	}
}

// Processes that may trace everything share memory with each other, even if all else differs.
func TestTracersShare(t *testing.T) {
	a := plain(func(c *Card) { c.Node.Caps = ptrace | 3 })
	b := plain(func(c *Card) { c.Node.Caps, c.Node.UID, c.Node.Hidden = ptrace, 0, true })
	require.True(t, a.Node.Shares(&b.Node))
	b.Node.Users++
	require.False(t, a.Node.Shares(&b.Node))
}

// Two processes are on one node of a survey exactly if they can share memory, and sharing is
// symmetric.
func TestSurveyAgreesWithShares(t *testing.T) {
	changes := []func(*Card){
		func(*Card) {}, func(*Card) {},
		func(c *Card) { c.Node.Boot[0] = 2 }, func(c *Card) { c.Node.Name = "x" },
		func(c *Card) { c.Node.PIDs++ }, func(c *Card) { c.Node.Users++ }, func(c *Card) { c.Node.Net++ },
		func(c *Card) { c.Node.UID++ }, func(c *Card) { c.Node.Caps |= ptrace }, func(c *Card) { c.Node.Caps |= 1 },
		func(c *Card) { c.Node.Hidden = true },
	}
	for range 300 {
		cards := make([]*Card, 1+rand.IntN(12))
		for i := range cards {
			cards[i] = plain(changes[rand.IntN(len(changes))], changes[rand.IntN(len(changes))])
		}
		topo, err := Survey(len(cards), func(rank int) (*Card, error) { return cards[rank], nil })
		require.NoError(t, err)
		again, err := DecodeTopology(topo.Encode(), len(cards))
		require.NoError(t, err)
		require.Equal(t, topo, again)
		first := -1
		for i, a := range cards {
			require.LessOrEqual(t, topo.Node(i), first+1, "nodes are numbered by their lowest ranks")
			first = max(first, topo.Node(i))
			for j, b := range cards {
				shares := i == j || a.Node.Shares(&b.Node)
				require.Equal(t, shares, topo.Node(i) == topo.Node(j), "%+v %+v", a.Node, b.Node)
				if i != j {
					require.Equal(t, shares, b.Node.Shares(&a.Node))
				}
			}
		}
		require.Equal(t, first+1, topo.Nodes())
		require.Equal(t, topo.Nodes() > 1, topo.Apart)
	}
}

func surveyed(t *testing.T, cards ...*Card) *Topology {
	t.Helper()
	topo, err := Survey(len(cards), func(rank int) (*Card, error) { return cards[rank], nil })
	require.NoError(t, err)
	return topo
}

// All processes of a machine share its cores, in any containers; a quota is a container's own.
func TestCrowded(t *testing.T) {
	cores := func(b ...byte) func(*Card) { return func(c *Card) { c.Cores = b } }
	other := func(c *Card) { c.Node.PIDs++ }
	quota := func(q uint32) func(*Card) { return func(c *Card) { c.Quota = q } }
	far := func(c *Card) { c.Node.Boot[5] = 9 }
	require.False(t, surveyed(t, plain(cores(3)), plain(cores(3))).Crowded(0))
	require.True(t, surveyed(t, plain(cores(1)), plain(cores(1))).Crowded(0))
	require.False(t, surveyed(t, plain(cores(1)), plain(cores(0, 1))).Crowded(0), "bound to different cores")
	both := surveyed(t, plain(cores(1)), plain(cores(1), other))
	require.True(t, both.Crowded(0) && both.Crowded(1), "one machine, two containers")
	apart := surveyed(t, plain(cores(1)), plain(cores(1), far))
	require.False(t, apart.Crowded(0) || apart.Crowded(1), "two machines")
	tight := surveyed(t, plain(quota(1500)), plain(quota(1500)), plain(other))
	require.True(t, tight.Crowded(0) && !tight.Crowded(1))
	require.False(t, surveyed(t, plain(quota(2000)), plain(quota(2000))).Crowded(0))
}

func TestApart(t *testing.T) {
	require.False(t, surveyed(t, plain(), plain()).Apart)
	require.True(t, surveyed(t, plain(), plain(func(c *Card) { c.Allowed = Sockets })).Apart)
	require.True(t, surveyed(t, plain(), plain(func(c *Card) { c.Node.PIDs++ })).Apart)
	_, err := Survey(2, func(int) (*Card, error) { return nil, os.ErrNotExist })
	require.ErrorIs(t, err, os.ErrNotExist)
	one := One(3)
	again, err := DecodeTopology(one.Encode(), 3)
	require.NoError(t, err)
	require.Equal(t, one, again)
	require.Equal(t, []int{0, 0, 0}, []int{one.Node(0), one.Node(1), one.Node(2)})
}

func TestChooseAdapters(t *testing.T) {
	far := func(c *Card) { c.Node.Boot[3]++ }
	adapter := func(c *Card) { c.Adapter = "rxe0" }
	no := func(c *Card) { c.Allowed = Of(Shm, Unix, TCP) }
	for name, tc := range map[string]struct {
		mine, theirs *Card
		want         Verdict
	}{
		"far":          {plain(adapter), plain(adapter, far), Verdict{Verbs, true, "both have an RDMA adapter"}},
		"near":         {plain(adapter), plain(adapter), Verdict{Verbs, false, "one machine: Unix-domain sockets are shorter"}},
		"not allowed":  {plain(adapter), plain(adapter, far, no), Verdict{Verbs, false, "one of the two may use shm,unix,tcp only (" + knobs + ")"}},
		"one only":     {plain(adapter), plain(far), Verdict{Verbs, false, "one of the two has no RDMA adapter"}},
		"on one alone": {plain(adapter, func(c *Card) { c.Allowed = Of(Verbs) }), plain(adapter), Verdict{Verbs, true, "both have an RDMA adapter"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, Choose(tc.mine, tc.theirs), tc.want)
			require.Contains(t, Choose(tc.theirs, tc.mine), tc.want)
		})
	}
}

func TestParseSet(t *testing.T) {
	for text, want := range map[string]Set{"shm": Of(Shm), " TCP , unix": Of(Unix, TCP), "shm,verbs,unix,tcp": All, "verbs,unix,tcp": Sockets,
		"tcp,tcp": Of(TCP)} {
		got, err := ParseSet(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := ParseSet(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, text := range []string{"", "rdma", "shm,", "shm tcp"} {
		_, err := ParseSet(text)
		require.ErrorContains(t, err, "shm,verbs,unix,tcp", text)
	}
}

// The node of this process is that of a child, and no other in a namespace of its own, where the
// kernel permits one.
func TestHere(t *testing.T) {
	mine, err := Here()
	require.NoError(t, err)
	require.Equal(t, mine, child(t))
	require.True(t, mine.Shares(&mine))
	require.False(t, mine.Hidden)
	require.NotZero(t, mine.PIDs*mine.Users*mine.Net)
	t.Setenv(NameVariable, "x")
	named := child(t)
	require.Equal(t, "x", named.Name)
	require.Contains(t, mine.apart(&named), NameVariable)
	t.Setenv(NameVariable, strings.Repeat("x", maxName+1))
	_, err = Here()
	require.ErrorContains(t, err, "at most 64")
}

// hereEnv makes the test binary print its card and end.
const hereEnv = "BANYAN_TEST_HERE"

func TestMain(m *testing.M) {
	if os.Getenv(hereEnv) == "" {
		os.Exit(m.Run())
	}
	n, err := Here()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(strconv.Quote(string((&Card{Node: n}).Encode())))
}

func child(t *testing.T) Node {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), hereEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := strconv.Unquote(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	c, err := DecodeCard([]byte(text))
	require.NoError(t, err)
	return c.Node
}

// All ranks learn of one that differs in debug, or in the table of algorithms.
func TestDiffers(t *testing.T) {
	for in, set := range []func(c *Card, odd bool){
		InDebug: func(c *Card, odd bool) { c.Debug = odd },
		InAlgorithms: func(c *Card, odd bool) {
			if odd {
				c.Algorithms = 1 << 40
			}
		},
	} {
		for want, odd := range [][3]bool{{}, {false, true, false}, {true, true, false}} {
			topo, err := Survey(3, func(rank int) (*Card, error) {
				return plain(func(c *Card) { set(c, odd[rank]) }), nil
			})
			require.NoError(t, err)
			again, err := DecodeTopology(topo.Encode(), 3)
			require.NoError(t, err)
			require.Equal(t, []int{want, want}, []int{topo.Differs, again.Differs})
			if want > 0 {
				require.Equal(t, []Setting{Setting(in), Setting(in)}, []Setting{topo.In, again.In})
			}
		}
	}
	_, err := DecodeTopology([]byte{topologyVersion, 0, 0, 3, 1, 0, 3, 0}, 3)
	require.Error(t, err, "there is no such rank")
	_, err = DecodeTopology([]byte{topologyVersion, 0, byte(settings), 0, 1, 0, 3, 0}, 3)
	require.Error(t, err, "there is no such setting")
}

func full() *Card {
	return plain(func(c *Card) {
		c.Node.Name, c.Node.Hidden, c.Node.Caps, c.Quota = strings.Repeat("n", maxName), true, 1<<40, 1500
		for i := range maxAddresses {
			c.Addresses = append(c.Addresses, Address{strings.Repeat("p", maxProvider-1) + strconv.Itoa(i),
				slices.Repeat([]byte{byte(i)}, maxBlob)})
		}
		c.Enclosed, c.Debug, c.Algorithms = strings.Repeat("e", maxEnclosed), true, 1<<63
		c.Cores = slices.Repeat([]byte{0xff}, maxCores)
	})
}

func TestCard(t *testing.T) {
	for _, c := range []*Card{full(), plain(func(c *Card) { c.Addresses = []Address{{"shm", []byte{1}}} })} {
		b := c.Encode()
		got, err := DecodeCard(b)
		require.NoError(t, err)
		require.Equal(t, *c, got)
		for n := range b {
			_, err := DecodeCard(b[:n])
			require.Error(t, err, "cut at %d", n)
		}
		_, err = DecodeCard(append(b, 0))
		require.Error(t, err)
	}
	_, err := DecodeCard([]byte{cardVersion + 1})
	require.ErrorContains(t, err, "one build")
	require.Equal(t, []byte{1}, plain(func(c *Card) { c.Addresses = []Address{{"shm", []byte{1}}} }).Address("shm"))
	require.Nil(t, plain().Address("shm"))
	long, err := DecodeCard(plain(func(c *Card) { c.Enclosed = strings.Repeat("e", maxEnclosed+1) }).Encode())
	require.NoError(t, err)
	require.Len(t, long.Enclosed, maxEnclosed, "cut")
}

func FuzzDecodeCard(f *testing.F) {
	f.Add(full().Encode())
	f.Add(plain().Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCard(b)
		if err != nil {
			return
		}
		again, err := DecodeCard(c.Encode())
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

func FuzzDecodeTopology(f *testing.F) {
	f.Add(One(5).Encode(), 5)
	f.Add(surveyed(&testing.T{}, plain(), plain(func(c *Card) { c.Node.PIDs++ }), plain()).Encode(), 3)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		topo, err := DecodeTopology(b, size)
		if err != nil || size > 1<<12 {
			return
		}
		for rank := range size {
			require.Less(t, topo.Node(rank), topo.Nodes())
			topo.Crowded(topo.Node(rank))
		}
		again, err := DecodeTopology(topo.Encode(), size)
		require.NoError(t, err)
		require.Equal(t, topo, again)
	})
}
