package hosts

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A launcher and its proxy on a host communicate over the standard input and output of the remote
// shell. The proxy starts with its greeting, which the launcher finds behind the output of a
// shell's start files. From then on both sides send frames:
//
//	kind 1 | stream 1 | zero 2 | rank 4 | length 4 | length bytes
//
// in little-endian order.
//
//	launcher            proxy
//	          greeting  ←       "\x89banyan proxy 1\r\n\x1a\n"
//	job       →                 the job to run; nothing runs yet
//	          ready     ←       or refused: why it cannot run here
//	start     →                 sent when all hosts are ready
//	          started   ←       or refused
//	signal, data, taken, closed in both directions, ended of each rank
//	          done      ←       all ranks have ended, all their output is sent
//
// data carries the bytes of one stream of one rank. A side sends no more of a stream than its
// window; taken gives room back. So a stream that is not read holds up neither the others nor
// signals.

// protocolVersion changes whenever a launcher and a proxy of different builds would misunderstand
// each other.
const protocolVersion = 1

// greeting, the version and greetingEnd start the proxy's output. A terminal in between turns "\n"
// into "\r\n", which would corrupt frames.
const (
	greeting    = "\x89banyan proxy "
	greetingEnd = "\r\n\x1a\n"
)

// noiseMax bounds the output of a remote shell before the greeting, in bytes.
const noiseMax = 64 << 10

type frameKind uint8

const (
	frameJob frameKind = iota
	frameReady
	frameRefused
	frameStart
	frameStarted
	frameSignal
	frameEnded
	frameDone
	frameData
	frameTaken
	frameClosed
	frameKinds
)

// streamKind names one of the streams of a rank.
type streamKind uint8

const (
	streamPMI streamKind = iota // requests and replies
	streamOut
	streamErr
	streamIn
	streamKinds
)

const (
	headerBytes = 12
	// chunkMax bounds the bytes of one data frame: a line of output fits.
	chunkMax = spawn.LineMax
	// jobMax bounds the description of a job: arguments, environment.
	jobMax = 4 << 20
	// textMax bounds a text for people and the end of a rank.
	textMax = 16 << 10
	// startedMax bounds the list of the process ids of all ranks of a host.
	startedMax = proc.MaxIDs * 11
)

// windows bound the unread bytes of a stream: enough for one chunk while another one is being
// written.
var windows = [streamKinds]int{
	streamPMI: 16 << 10, streamOut: 2 * chunkMax, streamErr: 2 * chunkMax, streamIn: chunkMax,
}

// lengths bound the payload of each kind of frame.
var lengths = [frameKinds]struct{ least, most int }{
	frameJob: {1, jobMax}, frameRefused: {1, textMax}, frameStarted: {1, startedMax},
	frameSignal: {2, 2}, frameEnded: {1, textMax}, frameData: {1, chunkMax}, frameTaken: {4, 4},
}

// frame is one message between launcher and proxy.
type frame struct {
	kind    frameKind
	stream  streamKind // of frameData, frameTaken, frameClosed
	rank    int        // of these and of frameEnded
	payload []byte
}

func (f frame) append(b []byte) []byte {
	b = append(b, byte(f.kind), byte(f.stream), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.rank))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.payload)))
	return append(b, f.payload...)
}

// readFrame returns the next frame. The error is io.EOF at a clean end. It takes no more memory
// than the kind of the frame allows.
func readFrame(r *bufio.Reader) (frame, error) {
	var h [headerBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: frameKind(h[0]), stream: streamKind(h[1])}
	rank, length := binary.LittleEndian.Uint32(h[4:]), binary.LittleEndian.Uint32(h[8:])
	switch {
	case f.kind >= frameKinds || f.stream >= streamKinds || h[2] != 0 || h[3] != 0 || rank >= proc.MaxIDs:
		return frame{}, fmt.Errorf("%w: it begins with %s", errFrame, pmi.Excerpt(string(h[:])))
	case int64(length) < int64(lengths[f.kind].least) || int64(length) > int64(lengths[f.kind].most):
		return frame{}, fmt.Errorf("%w: %d bytes in one of kind %d", errFrame, length, f.kind)
	}
	f.rank = int(rank)
	var err error
	f.payload, err = readPayload(r, int(length))
	return f, err
}

// readPayload takes memory for one chunk at once, and for more as it comes.
func readPayload(r io.Reader, length int) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	b := bytes.NewBuffer(make([]byte, 0, min(length, chunkMax)))
	_, err := io.CopyN(b, r, int64(length))
	return b.Bytes(), noEOF(err)
}

var errFrame = errors.New("the input is no frame")

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errTerminal: the greeting has come, changed as a terminal changes it.
var errTerminal = errors.New("a terminal lies between launcher and proxy and changes their messages: " +
	"let the remote shell make none (ssh -T, docker exec without -t)")

// skipNoise reads up to and including the greeting. noise came before it; version is the other
// side's.
func skipNoise(r *bufio.Reader) (noise []byte, version string, err error) {
	for len(noise) < noiseMax {
		c, err := r.ReadByte()
		if err != nil {
			return noise, "", noEOF(err)
		}
		noise = append(noise, c)
		if c != greeting[len(greeting)-1] || !bytes.HasSuffix(noise, []byte(greeting)) {
			continue
		}
		noise = noise[:len(noise)-len(greeting)]
		rest, err := greetingRest(r)
		if err != nil {
			return noise, "", err
		}
		version, ok := bytes.CutSuffix(rest, []byte(greetingEnd))
		if !ok {
			return noise, "", errTerminal
		}
		return noise, string(version), nil
	}
	return noise, "", fmt.Errorf("%d bytes without a greeting", len(noise))
}

// greetingRest reads to the newline that ends the greeting.
func greetingRest(r *bufio.Reader) ([]byte, error) {
	const most = len("4294967295\r\r\n\x1a\r\n")
	var rest []byte
	for len(rest) < most {
		c, err := r.ReadByte()
		if err != nil {
			return nil, noEOF(err)
		}
		rest = append(rest, c)
		if c == '\n' && bytes.Contains(rest, []byte("\x1a")) {
			break
		}
	}
	return rest, nil
}
