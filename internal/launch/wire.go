package launch

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

// The PMI-1 wire protocol is lines of "key=value" words separated by blanks,
// the first of which is "cmd=…". A request gets one reply. Only spawning uses
// several lines, from "mcmd=spawn" to "endcmd". There is no escape character:
// a value has no blanks.
const (
	// clientLineMax bounds a launcher's reply, serverLineMax a rank's request.
	clientLineMax = 16 << 10
	serverLineMax = 4 << 10
	// requestMax bounds what this package sends: PMIU_MAXLINE of the original
	// implementation, less its newline and terminator.
	requestMax = 1022
	fieldsMax  = 32
)

type field struct{ key, value string }

// message is one parsed line.
type message struct {
	cmd    string
	multi  bool // "mcmd=": more lines follow, up to "endcmd"
	fields []field
}

// parse reads one line without its newline. It accepts repeated blanks and any
// order after the command, and keeps the first of equal keys.
func parse(line string) (message, error) {
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return message{}, fmt.Errorf("control character 0x%02x in %s", line[i], excerpt(line))
	}
	var m message
	for word := range strings.FieldsSeq(line) {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || key == "":
			return message{}, fmt.Errorf("%s is not key=value, in %s", excerpt(word), excerpt(line))
		case m.cmd == "" && (key == "cmd" || key == "mcmd") && value != "":
			m.cmd, m.multi = value, key == "mcmd"
		case m.cmd == "":
			return message{}, fmt.Errorf("no cmd= at the start of %s", excerpt(line))
		case len(m.fields) == fieldsMax:
			return message{}, fmt.Errorf("more than %d fields in %s", fieldsMax, excerpt(line))
		default:
			m.fields = append(m.fields, field{key, value})
		}
	}
	if m.cmd == "" {
		return message{}, errors.New("an empty line")
	}
	return m, nil
}

// excerpt quotes the beginning of what a peer sent, but no published value: it
// may be the job's secret.
func excerpt(s string) string {
	const most = 80
	if i := strings.Index(s, "value="); i >= 0 {
		return strconv.Quote(s[:min(i, most)]) + "…"
	}
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// get returns the value of a key, "" when it is absent.
func (m message) get(key string) string {
	i := slices.IndexFunc(m.fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return ""
	}
	return m.fields[i].value
}

// number returns the value of a key that must be a decimal number.
func (m message) number(key string) (int, error) {
	n, err := strconv.Atoi(m.get(key))
	if err != nil {
		return 0, fmt.Errorf("cmd=%s with %s=%s, which is no number", m.cmd, key, excerpt(m.get(key)))
	}
	return n, nil
}

// failed reports whether the message carries a result code other than 0.
func (m message) failed() bool {
	rc := m.get("rc")
	return rc != "" && rc != "0"
}

// encode makes a line. kv is keys and values in turn; no value has blanks.
func encode(cmd string, kv ...string) string {
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

// oneWord makes text fit for a value that people read: the protocol's custom
// is underscores for blanks.
func oneWord(text string, most int) string {
	word := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '_'
		}
		return r
	}, text)
	return word[:min(len(word), most)]
}

// readLine returns the next line without its newline. The error is io.EOF at a
// clean end, and says so when the line is longer than the reader's buffer.
func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	switch {
	case err == nil:
		return strings.TrimSuffix(string(b[:len(b)-1]), "\r"), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("a line longer than %d bytes, beginning with %s: %w", r.Size(), excerpt(string(b)), err)
	case errors.Is(err, io.EOF) && len(b) > 0:
		return "", fmt.Errorf("the connection ended inside the line %s: %w", excerpt(string(b)), io.ErrUnexpectedEOF)
	default:
		return "", err
	}
}

// connection is what both sides of the protocol need of a socket: the
// descriptor that a launcher left, a TCP connection, a pipe within the process.
type connection interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}
