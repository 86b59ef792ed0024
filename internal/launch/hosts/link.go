package hosts

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// link carries the frames of one host, on either side. Any goroutine may send, which never waits.
// One goroutine reads and one writes.
type link struct {
	r *bufio.Reader
	w io.Writer

	mu      sync.Mutex
	changed sync.Cond // of everything below but the streams
	queue   []byte    // frames to be written; the windows bound it
	writing bool
	signals int  // in queue
	last    bool // no more frames will be sent
	down    bool // the same, and none will be read
	streams map[streamID]*stream
}

type streamID struct {
	kind streamKind
	rank int
}

// signalsMax bounds the signals in the queue of a link that hangs.
const signalsMax = 256

func newLink(r *bufio.Reader, w io.Writer) *link {
	l := &link{r: r, w: w, streams: make(map[streamID]*stream)}
	l.changed.L = &l.mu
	return l
}

// open sets the streams of a link that was made without.
func (l *link) open(r io.Reader, w io.Writer) {
	l.r, l.w = bufio.NewReaderSize(r, chunkMax), w
}

// stream returns the stream of a rank, which the other side may use from now on.
func (l *link) stream(kind streamKind, rank int) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &stream{link: l, id: streamID{kind, rank}, room: windows[kind], over: l.down, deaf: l.last}
	s.changed.L = &l.mu
	l.streams[s.id] = s
	return s
}

// send queues a frame. After the last one it drops it.
func (l *link) send(f frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(f)
}

func (l *link) put(f frame) {
	if l.last {
		return
	}
	if f.kind == frameSignal {
		if l.signals == signalsMax {
			return
		}
		l.signals++
	}
	l.queue = f.append(l.queue)
	l.changed.Broadcast()
}

// write writes the queue until the link is finished or down. It belongs to one goroutine.
func (l *link) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var spare []byte
	for {
		for len(l.queue) == 0 && !l.last {
			l.changed.Wait()
		}
		if len(l.queue) == 0 {
			return
		}
		batch := l.queue
		l.queue, l.signals, l.writing = spare[:0], 0, true
		l.mu.Unlock()
		_, err := l.w.Write(batch)
		l.mu.Lock()
		if spare = batch; cap(spare) > 2*chunkMax {
			spare = nil
		}
		l.writing = false
		if err != nil {
			l.mute() // earlier frames of the other side may still be read
		}
		l.changed.Broadcast()
	}
}

// flush returns when all frames sent before have been written, or cannot be.
func (l *link) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 || l.writing && !l.down {
		l.changed.Wait()
	}
}

// finish ends the sending after the queue.
func (l *link) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = true
	l.changed.Broadcast()
}

// close ends the link and its streams.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fall()
}

func (l *link) fall() {
	l.down = true
	for _, s := range l.streams {
		s.over = true
	}
	l.mute()
}

// mute ends the sending at once.
func (l *link) mute() {
	l.last, l.queue = true, nil
	for _, s := range l.streams {
		s.deaf = true
		s.changed.Broadcast()
	}
	l.changed.Broadcast()
}

// read handles frames of streams and returns the next other one. It waits for nothing but the other
// side.
func (l *link) read() (frame, error) {
	for {
		f, err := readFrame(l.r)
		if err != nil {
			return f, err
		}
		switch f.kind {
		case frameData, frameTaken, frameClosed:
			if err := l.deliver(f); err != nil {
				return f, err
			}
		default:
			return f, nil
		}
	}
}

func (l *link) deliver(f frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[streamID{f.stream, f.rank}]
	if s == nil {
		return fmt.Errorf("%w: rank %d has no stream %d here", errFrame, f.rank, f.stream)
	}
	switch f.kind {
	case frameData:
		if s.shut || s.over {
			return nil // frameClosed is under way to the sender
		}
		if s.held += len(f.payload); s.held > windows[f.stream] {
			return fmt.Errorf("%w: more than its window in stream %d of rank %d", errFrame, f.stream, f.rank)
		}
		s.chunks = append(s.chunks, f.payload)
	case frameTaken:
		n := binary.LittleEndian.Uint32(f.payload)
		if int64(s.room)+int64(n) > int64(windows[f.stream]) {
			return fmt.Errorf("%w: more given back than sent in stream %d of rank %d", errFrame, f.stream, f.rank)
		}
		s.room += int(n)
	case frameClosed:
		s.over, s.deaf = true, true
	}
	s.changed.Broadcast()
	return nil
}

// stream is one of a rank's streams, in both directions. One goroutine may read and another one
// write. The link's mutex guards it.
type stream struct {
	link    *link
	id      streamID
	changed sync.Cond
	room    int      // bytes that may be sent
	chunks  [][]byte // received and not taken
	first   []byte   // Read's: the rest of a chunk
	held    int      // bytes received and not given back
	over    bool     // no more bytes come
	deaf    bool     // the other side drops further bytes
	shut    bool     // this side has closed
}

// next returns the bytes of one frame, or false at the end. The caller calls taken when it is done
// with them.
func (s *stream) next() ([]byte, bool) {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	for len(s.chunks) == 0 {
		if s.over || s.shut {
			return nil, false
		}
		s.changed.Wait()
	}
	chunk := s.chunks[0]
	s.chunks = s.chunks[1:]
	return chunk, true
}

// taken gives the sender room for n bytes again.
func (s *stream) taken(n int) {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	s.held -= n
	if !s.shut {
		s.link.put(frame{frameTaken, s.id.kind, s.id.rank, binary.LittleEndian.AppendUint32(nil, uint32(n))})
	}
}

// Read is io.Reader's.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.first) == 0 {
		chunk, ok := s.next()
		if !ok {
			return 0, io.EOF
		}
		s.first = chunk
	}
	n := copy(p, s.first)
	s.first = s.first[n:]
	s.taken(n)
	return n, nil
}

// Write is io.Writer's. It waits for room.
func (s *stream) Write(p []byte) (int, error) {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, chunkMax, windows[s.id.kind])
		for s.room < n && !s.deaf && !s.shut {
			s.changed.Wait()
		}
		if s.deaf || s.shut {
			return sent, io.ErrClosedPipe
		}
		s.room -= n
		s.link.put(frame{frameData, s.id.kind, s.id.rank, p[sent : sent+n]})
		sent += n
	}
	return sent, nil
}

// Close ends both directions. Bytes written before still arrive.
func (s *stream) Close() error {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	if !s.shut {
		s.shut = true
		s.link.put(frame{kind: frameClosed, stream: s.id.kind, rank: s.id.rank})
		s.changed.Broadcast()
	}
	return nil
}
