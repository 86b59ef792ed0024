package shm

import (
	"bytes"
	"math"
	"math/big"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// With any entry in /proc, the fields are read from the part after the name, which may contain any
// bytes.
func FuzzStat(f *testing.F) {
	entry := "4711 (a b) c) S " + strings.Repeat("1 ", 18) + "99 " + strings.Repeat("2 ", 28) + "-1 9 3"
	f.Add([]byte(entry))
	f.Add([]byte("4711 (x) Z 1 2 3"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, entry []byte) {
		fields := statFields(entry)
		rest := entry[bytes.LastIndexByte(entry, ')')+1:]
		for _, field := range fields {
			require.NotEmpty(t, field)
			require.Contains(t, string(rest), string(field))
		}
		start, err := startIn(fields)
		require.True(t, err == nil || start == 0 || start == math.MaxUint64)
		if status, ok := statusIn(fields); ok {
			require.NotEmpty(t, causeOf(status).String())
		}
	})
}

// The limit of a control group is computed without overflow, and only numbers from zero on count as
// a limit.
func FuzzLimits(f *testing.F) {
	f.Add("1000000\n", "900000\n", "anon 5\ninactive_file 100000\n", int64(200_000))
	f.Add("max\n", "5\n", "", int64(1)<<40)
	f.Add("9223372036854775807", "-9223372036854775808", "inactive_file -9223372036854775808", int64(1))
	f.Add("-1", "1", "inactive_file 1", int64(0))
	f.Fuzz(func(t *testing.T, limit, used, stat string, n int64) {
		file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
		root := fstest.MapFS{
			"proc/self/cgroup": file("0::/job\n"), "sys/fs/cgroup/job/memory.max": file(limit),
			"sys/fs/cgroup/job/memory.current": file(used), "sys/fs/cgroup/job/memory.stat": file(stat),
		}
		n &= math.MaxInt64
		if err := checkMachine(fstest.MapFS{"proc/meminfo": file("MemAvailable: " + stat)}, n); err != nil {
			require.ErrorIs(t, err, ErrNoSpace)
		}
		_, err := checkCgroup(root, n)
		number := func(s string) *big.Int {
			v, ok := new(big.Int).SetString(strings.TrimSpace(s), 10)
			if !ok || strings.ContainsAny(s, "+-") || !v.IsInt64() {
				return nil
			}
			return v
		}
		most, now := number(limit), number(used)
		if err != nil {
			require.ErrorIs(t, err, ErrNoSpace)
			require.NotNil(t, most)
			require.NotNil(t, now)
			return
		}
		if most != nil && now != nil && !strings.Contains(stat, "inactive_file") {
			require.LessOrEqual(t, new(big.Int).Add(now, big.NewInt(n)).Cmp(most), 0)
		}
	})
}

// Any name that a peer gives to a board or a collective segment is refused, or gives valid cells and slots.
func FuzzNames(f *testing.F) {
	p, err := Open(Config{MaxProcs: 2})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, p.Close()) })
	name, ok := p.Boards().Make(3, 7)
	require.True(f, ok)
	segment, ok := p.Boards().MakeSegment([]proc.ID{0, 1})
	require.True(f, ok)
	f.Add(name, uint8(2), uint32(7))
	f.Add(segment, uint8(1), uint32(1))
	f.Add(uint64(1)<<32|math.MaxUint32, uint8(255), uint32(0))
	f.Add(uint64(boardArea/cellBytes), uint8(63), ^uint32(0))
	f.Fuzz(func(t *testing.T, name uint64, n uint8, step uint32) {
		members := 1 + int(n)
		if b := p.Boards().Open(0, name, members); b != nil {
			for member := range members {
				require.LessOrEqual(t, len(b.Part(member, step)), board.MaxPart)
				b.Look(member, step)
				b.Naps(member, step)
			}
		}
		if h := p.Boards().OpenSegment(0, name, members); h != nil {
			require.LessOrEqual(t, members, board.MaxMembers)
			for member := range members {
				part, _ := h.Brought(member, 1)
				require.LessOrEqual(t, len(part), board.Wide(members))
				h.Laid(member, uint64(step))
			}
		}
		require.Nil(t, p.Boards().Open(1, name, members), "of a process whose memory is not mapped")
		require.Nil(t, p.Boards().OpenSegment(1, name, members))
	})
}

// With any bytes in a peer's slot, Await takes the expected frame, or nothing, or a frame that
// fits its buffer, and reads nothing outside of the slot.
func FuzzAwait(f *testing.F) {
	word := func(class fabric.Class, n uint64) uint64 { return 1<<lapShift | uint64(class)<<classShift | n }
	f.Add(word(fabric.ClassTest, 8), []byte("12345678"), uint16(8))
	f.Add(word(fabric.ClassTest, 1<<31), []byte{}, uint16(100))
	f.Add(word(fabric.ClassTest, 4000), []byte{1}, uint16(5000))
	f.Add(word(77, 8), []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, word uint64, data []byte, room uint16) {
		g := geometry{procs: 2, lines: 64, bulk: 16 << 10}
		_, c := consumerOf(g)
		memory := make([]byte, int(room)+64)
		for range 3 {
			l := c.line(c.head)
			copy(l.data[:], data)
			l.word = word&(1<<lapShift-1) | c.lap(c.head)<<lapShift
			before := c.head
			if next := c.next(fabric.ClassTest, 0); next != nil {
				require.Len(t, next, int(uint32(word)))
				require.LessOrEqual(t, len(next), inlineBytes)
			}
			if imm, ok := c.nextIs(fabric.ClassTest); ok {
				require.Equal(t, l.imm, imm)
				require.LessOrEqual(t, uint32(word), uint32(inlineBytes))
			}
			switch n := c.await(fabric.ClassTest, 0, memory[:room:room], 1); n {
			case takeNone, takeOther:
				require.Equal(t, before, c.head)
			default:
				require.EqualValues(t, uint32(word), n)
				require.LessOrEqual(t, n, int(room))
				require.Equal(t, before+1, c.head)
			}
			require.Equal(t, make([]byte, 64), memory[room:])
		}
	})
}

// With any cursors of a peer, a sender never has more in flight than there is room for, and
// detects impossible values.
func FuzzCursors(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 1, 40, 9, 200, 255})
	f.Add([]byte{255, 255, 0, 0, 1, 1, 1, 1})
	f.Add([]byte{0, 0, 200, 0, 64, 255, 0, 0, 250, 0, 100, 255})
	f.Fuzz(func(t *testing.T, script []byte) {
		g := geometry{procs: 2, lines: 64, bulk: 2 * narrowBulk}
		mem := make([]byte, pageBytes+g.ringBytes())
		p := producer{ring: longRing(mem, mem[pageBytes:], g), long: true}
		payload := make([]byte, g.maxFrame())
		for ; len(script) >= 3 && !p.corrupt; script = script[3:] { // heads go on or back, and something is sent
			if script[2] == 255 && !p.wide() {
				p.goWide()
			}
			p.at.head += uint64(int8(script[0]))
			p.at.bulkHead += uint64(int8(script[1])) * lineBytes
			for p.send(fabric.ClassTest, 0, payload[:int(script[2])*p.maxFrame/255]) && !p.corrupt {
				require.LessOrEqual(t, p.tail-p.headSeen, uint64(g.lines))
				require.LessOrEqual(t, p.bulkTail-p.bulkSeen, uint64(g.bulk))
			}
		}
	})
}
