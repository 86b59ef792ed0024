package tcp

import (
	"crypto/rand"
	"net/netip"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Forgery is an attack of a process that has seen another process's address, which is no secret,
// but does not have the job's secret. Harnesses use it to test that the attack fails.
type Forgery struct {
	// To are the TCP ports at which the process listens; nil: none.
	To []netip.AddrPort
	// Words are a hello that the process answers with a challenge, and a proof right
	// behind it, sealed with a wrong secret.
	Words []byte
}

// Forge makes the forgery of a process by its address.
func Forge(blob []byte) (Forgery, error) {
	a, err := decodeAddress(blob)
	if err != nil {
		return Forgery{}, err
	}
	// The ids do not matter: they are looked at once the proof is right.
	h := hello{version: handshakeVersion, from: proc.ID(1), toBorn: a.born, address: blob}
	_, _ = rand.Read(h.nonce[:]) // never fails: it ends the program instead
	var wrong [minSecret]byte
	_, _ = rand.Read(wrong[:])
	words := h.encode()
	s := statement{outbox: defaultOutbox}
	return Forgery{To: a.addrs, Words: append(words, s.seal(wrong[:], roleDialler, words)...)}, nil
}
