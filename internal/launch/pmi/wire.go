package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A message of PMI-1 is a line of "key=value" words separated by blanks, the first of which is
// "cmd=…". A request gets one reply. Only spawning uses several lines, from "mcmd=spawn" to
// "endcmd". There is no escape character: a value has no blanks.
const (
	// ReplyMax bounds a launcher's reply, serverLineMax a rank's request.
	ReplyMax      = 16 << 10
	serverLineMax = 4 << 10
	// RequestMax bounds a client's request: PMIU_MAXLINE of the original implementation, less its
	// newline and terminator.
	RequestMax = 1022
	fieldsMax  = 32
)

type field struct{ key, value string }

// Message is one parsed line.
type Message struct {
	Cmd    string
	multi  bool // "mcmd=": more lines follow, up to "endcmd"
	fields []field
}

// Parse parses a line without its newline. It accepts repeated blanks and any order after the
// command.
func Parse(line string) (Message, error) {
	for i := range len(line) { // bytes: no part of a longer character is among them
		if b := line[i]; b < ' ' && b != '\t' || b == 0x7f {
			return Message{}, fmt.Errorf("control character 0x%02x in %s", b, Excerpt(line))
		}
	}
	var m Message
	for word := range strings.FieldsSeq(line) {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || key == "":
			return Message{}, fmt.Errorf("%s is not key=value, in %s", Excerpt(word), Excerpt(line))
		case m.Cmd == "" && (key == "cmd" || key == "mcmd") && value != "":
			m.Cmd, m.multi = value, key == "mcmd"
		case m.Cmd == "":
			return Message{}, fmt.Errorf("no cmd= at the start of %s", Excerpt(line))
		case len(m.fields) == fieldsMax:
			return Message{}, fmt.Errorf("more than %d fields in %s", fieldsMax, Excerpt(line))
		default:
			m.fields = append(m.fields, field{key, value})
		}
	}
	if m.Cmd == "" {
		return Message{}, errors.New("an empty line")
	}
	return m, nil
}

// Excerpt quotes the start of a text from a peer, but no published value: it may be the job's
// secret.
func Excerpt(s string) string {
	const most = 80
	if i := strings.Index(s, "value="); i >= 0 {
		return strconv.Quote(s[:min(i, most)]) + "…"
	}
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// Get returns the first value of a key, "" when it is absent.
func (m Message) Get(key string) string {
	i := slices.IndexFunc(m.fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return ""
	}
	return m.fields[i].value
}

// Number returns the value of a key that must be a decimal number.
func (m Message) Number(key string) (int, error) {
	n, err := strconv.Atoi(m.Get(key))
	if err != nil {
		return 0, fmt.Errorf("cmd=%s with %s=%s, which is no number", m.Cmd, key, Excerpt(m.Get(key)))
	}
	return n, nil
}

// Failed reports whether the message carries a result code other than 0.
func (m Message) Failed() bool {
	rc := m.Get("rc")
	return rc != "" && rc != "0"
}

// Encode makes a line. kv is keys and values in turn; no value has blanks.
func Encode(cmd string, kv ...string) string {
	var b strings.Builder
	b.WriteString("cmd=")
	b.WriteString(cmd)
	for i := 0; i+1 < len(kv); i += 2 {
		b.WriteByte(' ')
		b.WriteString(kv[i])
		b.WriteByte('=')
		b.WriteString(kv[i+1])
	}
	b.WriteByte('\n')
	return b.String()
}

// OneWord makes a value of a text for people: the protocol's custom is underscores for blanks.
func OneWord(text string, most int) string {
	word := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '_'
		}
		return r
	}, text)
	return word[:min(len(word), most)]
}

// ReadLine returns the next line without its newline. The error is io.EOF at a clean end, and wraps
// bufio.ErrBufferFull when the line is longer than the reader's buffer.
func ReadLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	switch {
	case err == nil:
		return strings.TrimSuffix(string(b[:len(b)-1]), "\r"), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("a line longer than %d bytes, beginning with %s: %w", r.Size(), Excerpt(string(b)), err)
	case errors.Is(err, io.EOF) && len(b) > 0:
		return "", fmt.Errorf("the connection ended inside the line %s: %w", Excerpt(string(b)), io.ErrUnexpectedEOF)
	default:
		return "", err
	}
}

// Conn is a connection of PMI: the descriptor that a launcher has left, a TCP connection, or a pipe
// within the process.
type Conn interface {
	io.ReadWriteCloser
	// SetWriteDeadline is net.Conn's.
	SetWriteDeadline(t time.Time) error
}
