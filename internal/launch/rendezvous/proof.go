package rendezvous

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// Where the ranks have a file with a secret, the two sides of a meeting prove to
// each other that they know it, before either says or believes anything else:
//
//	guest  hello      version, rank, size, token, nonce of the guest
//	host   challenge  nonce of the host
//	guest  response   MAC("guest", both nonces, what it said in the hello)
//	host   welcome    MAC("host", both nonces, what the guest said, the job's id)
//
// Each side's nonce is fresh, so what was recorded earlier proves nothing; the
// two MACs begin with different words, so neither side can be made to answer
// its own question. The guest goes first: the port is open to everybody, and
// who merely connects gets nothing that was made with the secret.
//
// The connection is a plain one afterwards. Who can change packets under way can
// disturb the start-up, but learns no secret: the job's is derived from the
// file and not sent.

const (
	nonceLen = 16
	macLen   = sha256.Size
)

// proof is one exchange of proofs, as either side sees it.
type proof struct {
	key                      [SecretLen]byte
	client                   hello
	clientNonce, serverNonce string // the nonces, as they travel
}

func newNonce() string {
	var b [nonceLen]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// isNonce tells a nonce from other words.
func isNonce(word string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(word)
	return err == nil && len(b) == nonceLen
}

// mac is the proof of one side, "guest" or "host", that it knows the key. Each
// field is preceded by its length, so that no two lists of fields are alike.
func (e *proof) mac(side, id string) string {
	h := hmac.New(sha256.New, e.key[:])
	for _, field := range []string{
		"banyan meeting", side, helloVersion, e.clientNonce, e.serverNonce,
		strconv.Itoa(e.client.rank), strconv.Itoa(e.client.size), e.client.token, id,
	} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(field)))
		h.Write(n[:])
		h.Write([]byte(field))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// verify reports whether a proof is the one that side gives. It takes the same
// time however wrong the proof is.
func (e *proof) verify(side, id, proof string) bool {
	return hmac.Equal([]byte(proof), []byte(e.mac(side, id)))
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
	if err != nil || m.Cmd != "response" {
		return "", false
	}
	return m.Get("mac"), true
}
