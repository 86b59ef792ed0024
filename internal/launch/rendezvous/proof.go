package rendezvous

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// If the ranks have a file with a secret, both sides prove to each other that they have it
// before either accepts anything else:
//
//	client  hello      version, rank, size, token, nonce of the client
//	server  challenge  nonce of the server
//	client  response   MAC("client", both nonces, the fields of the hello)
//	server  verdict    MAC("server", both nonces, the fields of the hello, the job's id)
//
// Each nonce is fresh, so a recorded exchange proves nothing. The two MACs begin with different
// words, so neither side can be made to answer its own question. The client proves first: the port
// is open to every program, and a connection without proof gets nothing that was made with the
// secret.
//
// The connection is a plain one afterwards. An attacker that changes packets under way can disturb
// the start-up, but does not get a secret: the job's is derived from the file and not sent.

const (
	nonceLen   = 16
	clientSide = "client"
	serverSide = "server"
)

// proof is one exchange, as either side sees it.
type proof struct {
	key                      [SecretLen]byte
	client                   hello
	clientNonce, serverNonce string // as they travel
}

func newNonce() string {
	var b [nonceLen]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func isNonce(word string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(word)
	return err == nil && len(b) == nonceLen
}

// mac is the proof of one side that it has the key. The length of each field precedes it, so that
// no two lists of fields are alike.
func (p *proof) mac(side, id string) string {
	h := hmac.New(sha256.New, p.key[:])
	for _, field := range []string{
		"banyan rendezvous", side, helloVersion, p.clientNonce, p.serverNonce,
		strconv.Itoa(p.client.rank), strconv.Itoa(p.client.size), p.client.token, id,
	} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(field)))
		h.Write(n[:])
		h.Write([]byte(field))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// verify reports whether mac is the proof of a side, in constant time.
func (p *proof) verify(side, id, mac string) bool {
	return hmac.Equal([]byte(mac), []byte(p.mac(side, id)))
}
