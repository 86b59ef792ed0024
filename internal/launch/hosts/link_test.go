package hosts

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	frames := []frame{
		{kind: frameReady},
		{kind: frameJob, payload: bytes.Repeat([]byte{7}, jobMax)},
		{kind: frameData, stream: streamErr, rank: 1<<20 - 1, payload: make([]byte, chunkMax)},
		{kind: frameTaken, stream: streamIn, payload: []byte{1, 2, 3, 4}},
		{kind: frameSignal, payload: []byte{9, 1}},
		{kind: frameDone},
	}
	var wire []byte
	for _, f := range frames {
		wire = f.append(wire)
	}
	r := bufio.NewReader(bytes.NewReader(wire))
	for _, want := range frames {
		got, err := readFrame(r)
		require.NoError(t, err)
		require.True(t, want.kind == got.kind && want.stream == got.stream && want.rank == got.rank)
		require.True(t, bytes.Equal(want.payload, got.payload))
	}
	_, err := readFrame(r)
	require.ErrorIs(t, err, io.EOF)

	for name, bad := range map[string][]byte{
		"text":        []byte("Connection to b closed.\n"),
		"kind":        frame{kind: frameKinds}.append(nil),
		"stream":      frame{kind: frameClosed, stream: streamKinds}.append(nil),
		"rank":        frame{kind: frameClosed, rank: 1 << 20}.append(nil),
		"no signal":   frame{kind: frameSignal}.append(nil),
		"long data":   frame{kind: frameData, payload: make([]byte, chunkMax+1)}.append(nil),
		"empty data":  frame{kind: frameData}.append(nil),
		"long ready":  frame{kind: frameReady, payload: []byte{1}}.append(nil),
		"4 GiB of it": append(frame{kind: frameJob}.append(nil)[:8], 255, 255, 255, 255),
	} {
		_, err := readFrame(bufio.NewReader(bytes.NewReader(bad)))
		require.ErrorIs(t, err, errFrame, name)
	}
	_, err = readFrame(bufio.NewReader(bytes.NewReader(wire[headerBytes : headerBytes+100])))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestGreeting(t *testing.T) {
	ours := greeting + "1" + greetingEnd
	for _, c := range []struct{ text, noise, version, err string }{
		{ours, "", "1", ""},
		{"Welcome to b\r\nlast login\n" + ours, "Welcome to b\r\nlast login\n", "1", ""},
		{"no newline " + greeting[:5] + ours, "no newline " + greeting[:5], "1", ""},
		{greeting + "234" + greetingEnd, "", "234", ""},
		{"x" + strings.ReplaceAll(ours, "\n", "\r\n"), "x", "", "a terminal lies between"},
		{greeting + strings.Repeat("9", 100), "", "", "a terminal"},
		{"bye\n", "bye\n", "", "unexpected EOF"},
		{greeting + "1\r", "", "", "unexpected EOF"},
		{strings.Repeat("y\n", noiseMax), strings.Repeat("y\n", noiseMax/2), "", "65536 bytes without a greeting"},
	} {
		r := bufio.NewReader(strings.NewReader(c.text + "next"))
		if strings.Contains(c.err, "EOF") {
			r = bufio.NewReader(strings.NewReader(c.text))
		}
		noise, version, err := skipNoise(r)
		require.Equal(t, c.noise, string(noise))
		require.Equal(t, c.version, version)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "next", string(rest))
	}
}

// linked gives the two ends of a link, each with its writer running.
func linked(t *testing.T) (a, b *link) {
	ar, bw := io.Pipe()
	br, aw := io.Pipe()
	a, b = newLink(bufio.NewReader(ar), aw), newLink(bufio.NewReader(br), bw)
	done := make(chan struct{}, 2)
	for _, l := range []*link{a, b} {
		go func() { l.write(); done <- struct{}{} }()
	}
	t.Cleanup(func() {
		for _, c := range []io.Closer{ar, aw, br, bw} {
			c.Close()
		}
		a.close()
		b.close()
		<-done
		<-done
	})
	return a, b
}

// follow handles the frames for the streams of a link until it ends.
func follow(l *link) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := l.read()
		l.close()
		ended <- err
	}()
	return ended
}

func TestStreamKeepsToItsWindow(t *testing.T) {
	a, b := linked(t)
	from, to := a.stream(streamIn, 0), b.stream(streamIn, 0)
	follow(a)
	follow(b)
	data := bytes.Repeat([]byte("0123456789abcdef"), windows[streamIn]/4)
	wrote := make(chan error, 1)
	go func() {
		_, err := from.Write(data)
		from.Close()
		wrote <- err
	}()
	// A second stream passes the first, which is not read.
	other, there := a.stream(streamPMI, 0), b.stream(streamPMI, 0)
	_, err := other.Write([]byte("hello"))
	require.NoError(t, err)
	chunk, ok := there.next()
	require.True(t, ok)
	require.Equal(t, "hello", string(chunk))
	b.mu.Lock()
	held := to.held
	b.mu.Unlock()
	require.LessOrEqual(t, held, windows[streamIn])
	require.Empty(t, wrote)

	got, err := io.ReadAll(to)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	require.NoError(t, <-wrote)
	_, err = to.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe, "its other end is closed")
}

func TestLinkRefusesWhatBreaksItsRules(t *testing.T) {
	data := func(kind streamKind, rank, n int) frame {
		return frame{frameData, kind, rank, make([]byte, n)}
	}
	for name, frames := range map[string][]frame{
		"no such stream":       {data(streamPMI, 1, 1)},
		"more than the window": {data(streamPMI, 0, windows[streamPMI]), data(streamPMI, 0, 1)},
		"more back than sent":  {{frameTaken, streamPMI, 0, []byte{1, 0, 0, 0}}},
		"much more than sent":  {{frameTaken, streamPMI, 0, []byte{255, 255, 255, 255}}},
		"closing what is not":  {{kind: frameClosed, stream: streamPMI, rank: 7}},
	} {
		a, b := linked(t)
		b.stream(streamPMI, 0)
		ended := follow(b)
		for _, f := range frames {
			a.send(f)
		}
		require.ErrorIs(t, <-ended, errFrame, name)
	}
}

func TestLinkThatFallsEndsItsStreams(t *testing.T) {
	a, b := linked(t)
	s := b.stream(streamPMI, 0)
	ended := follow(b)
	a.send(frame{frameData, streamPMI, 0, []byte("last words")})
	chunk, ok := s.next()
	require.True(t, ok)
	require.Equal(t, "last words", string(chunk))
	b.close()
	_, ok = s.next()
	require.False(t, ok)
	late := b.stream(streamOut, 0)
	_, err := late.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	b.flush() // does not wait
	a.finish()
	a.close()
	require.Empty(t, ended)
}

// The other side has ended, and frames to it are lost; the frames that it has sent are received.
func TestLinkThatCannotSendStillReads(t *testing.T) {
	r, w := io.Pipe()
	gone, broken := io.Pipe()
	gone.Close()
	l := newLink(bufio.NewReader(r), broken)
	s := l.stream(streamOut, 0)
	l.send(frame{kind: frameReady})
	l.write() // until it fails
	follow(l)
	_, err := w.Write(frame{frameData, streamOut, 0, []byte("last words")}.append(nil))
	require.NoError(t, err)
	chunk, ok := s.next()
	require.True(t, ok)
	require.Equal(t, "last words", string(chunk))
	_, err = s.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	l.flush()
	w.Close()
	_, ok = s.next()
	require.False(t, ok)
}

// A link that takes nothing keeps a bounded number of signals.
func TestSignalsAreBounded(t *testing.T) {
	l := newLink(nil, nil)
	for range 10 * signalsMax {
		l.send(frame{kind: frameSignal, payload: []byte{1, 0}})
	}
	require.Len(t, l.queue, signalsMax*(headerBytes+2))
}

func FuzzFrame(f *testing.F) {
	f.Add(frame{kind: frameReady}.append(nil))
	f.Add(frame{frameData, streamOut, 3, []byte("hello\n")}.append(nil))
	f.Add(frame{kind: frameJob, payload: []byte("{}")}.append(nil))
	f.Add([]byte(greeting + "1" + greetingEnd))
	f.Fuzz(func(t *testing.T, wire []byte) {
		_, _, _ = skipNoise(bufio.NewReader(bytes.NewReader(wire)))
		r := bufio.NewReader(bytes.NewReader(wire))
		var again []byte
		for {
			x, err := readFrame(r)
			if err != nil {
				break
			}
			again = x.append(again)
		}
		if !bytes.HasPrefix(wire, again) {
			t.Fatalf("%x reads as %x", wire, again)
		}
	})
}

// FuzzLink sends invalid frames of a proxy to a side of a launcher.
func FuzzLink(f *testing.F) {
	f.Add(frame{frameData, streamOut, 0, []byte("hello\n")}.append(nil))
	f.Add(frame{frameTaken, streamPMI, 0, []byte{0, 0, 0, 0}}.append(nil))
	f.Fuzz(func(t *testing.T, wire []byte) {
		l := newLink(bufio.NewReader(bytes.NewReader(wire)), io.Discard)
		var streams []*stream
		for kind := range streamKinds {
			streams = append(streams, l.stream(kind, 0))
		}
		for {
			if _, err := l.read(); err != nil {
				break
			}
		}
		for _, s := range streams {
			if s.held > windows[s.id.kind] || s.room > windows[s.id.kind] || s.room < 0 {
				t.Fatalf("stream %d holds %d, may send %d", s.id.kind, s.held, s.room)
			}
		}
	})
}
