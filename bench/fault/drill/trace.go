package drill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// trace is a file that the ranks of a run map. It counts, for each rank and kind, the operations under
// way, ended, and ended with an error. It survives the death of a rank. Each rank writes its own part,
// and the driver reads when all have ended.
type trace struct{ mem []byte }

// The columns of a trace.
const (
	underWay = iota
	ended
	failed
	columns
)

// causes is the number of causes that an error can name.
const causes = int(proc.Refused) + 1

const (
	wordBytes = 4
	// From completeAt on each phase has a word, with a bit for each successful round of its collective.
	completeAt = int(kinds)*columns + causes
	rankWords  = completeAt + maxPhases
)

func traceBytes(ranks int) int { return ranks * rankWords * wordBytes }

// newTrace makes the file.
func newTrace(ranks int) (path string, t *trace, err error) {
	f, err := os.CreateTemp("", "banyan-drill-*")
	if err != nil {
		return "", nil, err
	}
	if err = f.Truncate(int64(traceBytes(ranks))); err == nil {
		t, err = mapTrace(f, ranks)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(fmt.Errorf("drill: the trace %s: %w", f.Name(), err), os.Remove(f.Name()))
	}
	return f.Name(), t, nil
}

// openTrace maps it in a rank.
func openTrace(path string, ranks int) (*trace, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("drill: the trace: %w", err)
	}
	t, err := mapTrace(f, ranks)
	return t, errors.Join(err, f.Close())
}

func mapTrace(f *os.File, ranks int) (*trace, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, traceBytes(ranks), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &trace{mem}, nil
}

// memoryTrace is the trace of ranks in this process.
func memoryTrace(ranks int) *trace { return &trace{make([]byte, traceBytes(ranks))} }

func (t *trace) close() error { return unix.Munmap(t.mem) }

func (t *trace) word(rank, i int) []byte {
	at := (rank*rankWords + i) * wordBytes
	return t.mem[at : at+wordBytes]
}

func (t *trace) bump(rank, i int, n int32) {
	b := t.word(rank, i)
	binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)+uint32(n))
}

func (t *trace) count(rank, i int) int { return int(binary.LittleEndian.Uint32(t.word(rank, i))) }

func (t *trace) add(rank int, k Kind, column int, n int32) { t.bump(rank, int(k)*columns+column, n) }

func (t *trace) get(rank int, k Kind, column int) int { return t.count(rank, int(k)*columns+column) }

// blamed counts an error that names a cause.
func (t *trace) blamed(rank int, k proc.Kind) { t.bump(rank, int(kinds)*columns+int(k), 1) }

func (t *trace) errors(rank int, k proc.Kind) int { return t.count(rank, int(kinds)*columns+int(k)) }

// sum changes with each start and end of an operation.
func (t *trace) sum() (n int) {
	for i := 0; i < len(t.mem); i += wordBytes {
		n += int(binary.LittleEndian.Uint32(t.mem[i:]))
	}
	return n
}
