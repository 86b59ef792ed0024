package rendezvous

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// The client writes a hello. Where there is a secret, a challenge and a response follow (proof.go).
// The server ends with its verdict. After that the connection carries PMI-1. Each message is a line
// in the format of PMI.

const (
	// helloMax bounds each line, in bytes.
	helloMax = 512
	// helloVersion changes with the messages and with the data that their proofs cover.
	helloVersion = "3"
	// refusalMax bounds the text of a refusal, in bytes: in an error of the server it shares a line
	// with the name of a missing rank.
	refusalMax = 200
)

// errNotRank: the connection is not that of a rank of any Banyan job.
var errNotRank = errors.New("not a rank")

// errOutOfTurn: the other side has not waited for the answer.
var errOutOfTurn = errors.New("more than one line")

// readLine reads one line, after which the other side waits.
func readLine(r *bufio.Reader) (string, error) {
	line, err := pmi.ReadLine(r)
	if err == nil && r.Buffered() > 0 {
		err = errOutOfTurn
	}
	return line, err
}

// hello distinguishes a rank of this job from other programs that connect to the port, and from
// ranks that were started with other variables.
type hello struct {
	rank, size int
	token      string
	nonce      string // "" where the client has no secret
}

func (h hello) line() string {
	return pmi.Encode("hello", "banyan", helloVersion,
		"rank", strconv.Itoa(h.rank), "size", strconv.Itoa(h.size), "token", h.token, "nonce", h.nonce)
}

func parseHello(line string) (h hello, err error) {
	m, err := pmi.Parse(line)
	if err != nil || m.Cmd != "hello" || m.Get("banyan") == "" {
		return h, errNotRank
	}
	if v := m.Get("banyan"); v != helloVersion {
		return h, fmt.Errorf("version %s of the protocol where rank 0 has %s: start all ranks from one build",
			pmi.Excerpt(v), helloVersion)
	}
	if h.rank, err = m.Number("rank"); err != nil {
		return h, err
	}
	if h.size, err = m.Number("size"); err != nil {
		return h, err
	}
	h.token, h.nonce = m.Get("token"), m.Get("nonce")
	if h.nonce != "" && !isNonce(h.nonce) {
		return h, errNotRank
	}
	return h, nil
}

func challenge(nonce string) string { return pmi.Encode("challenge", "nonce", nonce) }

func parseChallenge(line string) (nonce string, ok bool) {
	m, err := pmi.Parse(line)
	if err != nil || m.Cmd != "challenge" || !isNonce(m.Get("nonce")) {
		return "", false
	}
	return m.Get("nonce"), true
}

func response(mac string) string { return pmi.Encode("response", "mac", mac) }

func parseResponse(line string) (mac string, ok bool) {
	m, err := pmi.Parse(line)
	return m.Get("mac"), err == nil && m.Cmd == "response"
}

// verdict is the server's last message: its own proof, or why it refuses the client.
type verdict struct {
	refusal error  // nil: the client is admitted
	id, mac string // the job and the server's proof; "" without a secret
}

func (v verdict) line() string {
	if v.refusal == nil {
		return pmi.Encode("welcome", "rc", "0", "job", v.id, "mac", v.mac)
	}
	return pmi.Encode("welcome", "rc", "1", "why", base64.RawURLEncoding.EncodeToString([]byte(v.text())))
}

// text is the refusal, cut to refusalMax.
func (v verdict) text() string {
	text := v.refusal.Error()
	return text[:min(len(text), refusalMax)]
}

// parseVerdict reports false for a line that is no verdict.
func parseVerdict(line string) (v verdict, ok bool) {
	m, err := pmi.Parse(line)
	if err != nil || m.Cmd != "welcome" || m.Get("rc") == "" {
		return v, false
	}
	if !m.Failed() {
		return verdict{id: m.Get("job"), mac: m.Get("mac")}, true
	}
	text, err := base64.RawURLEncoding.DecodeString(m.Get("why"))
	if err != nil || len(text) > refusalMax {
		return v, false
	}
	return verdict{refusal: errors.New(strings.Map(printable, string(text)))}, true
}

// printable keeps an impostor of rank 0 from controlling the terminal. No text becomes longer by it:
// strings.Map passes each byte that is not UTF-8 as RuneError, which takes three.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
		return '?'
	}
	return r
}
