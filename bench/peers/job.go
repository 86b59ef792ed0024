package peers

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Test is the operation of a sample.
type Test string

// The tests.
const (
	// Latency: round trips of blocking messages.
	Latency Test = "lat"
	// Bandwidth: windows of non-blocking messages, each answered by one byte.
	Bandwidth Test = "bw"
	// Posted and Unexpected: a batch of MatchBatch matches an iteration, with the last of a queue
	// of Size receives or messages; see bench/match.
	Posted     Test = "posted"
	Unexpected Test = "unexpected"
	// Put, Get and FetchAdd: operations of rank 0 on the memory of rank 1, each with a flush.
	// PutBandwidth: windows of puts, each with a flush. PutPingPong: round trips of puts of a word; each side looks at its memory.
	Put          Test = "put"
	PutPingPong  Test = "pingput"
	Get          Test = "get"
	FetchAdd     Test = "fop"
	PutBandwidth Test = "putbw"
	// LockShared and LockExclusive: rank 0 locks the memory of rank 1 and releases it, nothing between.
	LockShared    Test = "lock"
	LockExclusive Test = "lockx"
	// Bare: the second loop of the control, of no other peer.
	Bare Test = "bare"
)

// The limits of a job, those of mpi/peer.c.
const (
	MaxSize    = 8 << 20 // bytes
	MaxWindow  = 1024
	MaxEntries = 1 << 20 // of a queue
	MatchBatch = 10
	// WindowBytes is the memory that operations of one side reach; longer windows begin again at its start.
	WindowBytes = 64 << 20
	// FetchAddSize is the one size of FetchAdd and PutPingPong.
	FetchAddSize = 8
)

// Job is one sample.
type Job struct {
	Test   Test
	Size   int // bytes; entries of the queue for Posted and Unexpected
	Window int // messages; 1 but for Bandwidth and PutBandwidth
	Warmup int // iterations before the clock starts
	Iters  int // iterations: round trips, or windows
}

// Messages is the number of messages that follow each other, of matches or of operations, in the job's
// iterations: the elapsed time divided by it is the time of one.
func (j Job) Messages() float64 {
	switch j.Test {
	case Bandwidth, PutBandwidth:
		return float64(j.Window) * float64(j.Iters)
	case Posted, Unexpected:
		return MatchBatch * float64(j.Iters)
	case Put, Get, FetchAdd, LockShared, LockExclusive:
		return float64(j.Iters)
	}
	return 2 * float64(j.Iters)
}

// String is the line of the protocol, without its end.
func (j Job) String() string {
	return fmt.Sprintf("%s %d %d %d %d", j.Test, j.Size, j.Window, j.Warmup, j.Iters)
}

// parseJob is the inverse of [Job.String] and checks the limits.
func parseJob(line string) (Job, error) {
	var j Job
	n, err := fmt.Sscanf(line, "%s %d %d %d %d\n", &j.Test, &j.Size, &j.Window, &j.Warmup, &j.Iters)
	smallest, largest, known := j.Test.sizes()
	if err != nil || n != 5 || !known || j.Size < smallest || j.Size > largest ||
		j.Window < 1 || j.Window > MaxWindow || j.Warmup < 0 || j.Iters < 1 {
		return j, fmt.Errorf("peers: not a job: %q", line)
	}
	return j, nil
}

// sizes returns the limits of a job's Size, and whether there is such a test.
func (t Test) sizes() (smallest, largest int, known bool) {
	switch t {
	case Latency, Bandwidth, Bare, Put, Get, PutBandwidth:
		return 0, MaxSize, true
	case FetchAdd, PutPingPong:
		return FetchAddSize, FetchAddSize, true
	case LockShared, LockExclusive:
		return 0, 0, true
	case Posted, Unexpected:
		return MatchBatch, MaxEntries, true
	}
	return 0, 0, false
}

// parseReply reads "ok NANOSECONDS" or "err WORDS".
func parseReply(line string) (time.Duration, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch word {
	case "ok":
		ns, err := strconv.ParseFloat(rest, 64)
		if err != nil || !(ns > 0) || ns > math.MaxInt64/2 {
			return 0, fmt.Errorf("peers: not a time: %q", line)
		}
		return time.Duration(ns), nil
	case "err":
		return 0, fmt.Errorf("peers: the peer answered: %s", rest)
	}
	return 0, fmt.Errorf("peers: not an answer: %q", line)
}

// Answers are the answers of rank 0 between jobs, by question. Each is one line.
type Answers map[string]func() string

// The words of a question to rank 0 and of its answer.
const (
	askWord    = "ask "
	answerWord = "is "
)

// Serve is the side of a rank: it takes jobs from the FIFOs in dir until the driver closes them,
// and answers if it is rank 0. words describe the implementation. run does one job and returns how
// long its iterations took; an error of it ends Serve, because the other rank is then out of step.
// answers are to [Server.Ask]; they may be nil.
func Serve(dir string, rank int, words string, run func(Job) (time.Duration, error), answers Answers) error {
	// Opened without waiting for the other side: the driver has been there from the start, and no
	// other one comes after its end.
	cmd, err := os.OpenFile(filepath.Join(dir, "cmd."+strconv.Itoa(rank)), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	defer cmd.Close()
	reply := io.Discard
	if rank == 0 {
		f, err := os.OpenFile(filepath.Join(dir, "reply"), os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("peers: %w", err)
		}
		defer f.Close()
		reply = f
	}
	if _, err := fmt.Fprintf(reply, "ready %s\n", words); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	for lines := bufio.NewScanner(cmd); lines.Scan(); {
		answer, fatal := serveOne(lines.Text(), run, answers)
		if _, err := fmt.Fprintln(reply, answer); err != nil || fatal != nil {
			return fatal // a reply without reader: the driver has ended
		}
	}
	return nil
}

// serveOne does one line and returns the answer, and the error after which the ranks cannot go on.
func serveOne(line string, run func(Job) (time.Duration, error), answers Answers) (answer string, fatal error) {
	if what, asked := strings.CutPrefix(line, askWord); asked {
		if tell := answers[what]; tell != nil {
			return answerWord + tell(), nil
		}
		return fmt.Sprintf("err no process here knows %q", what), nil
	}
	j, err := parseJob(line)
	if err != nil {
		return "err " + err.Error(), nil // both ranks refuse the same line
	}
	d, err := run(j)
	if err != nil {
		return "err " + err.Error(), err
	}
	return fmt.Sprintf("ok %d", d.Nanoseconds()), nil
}
