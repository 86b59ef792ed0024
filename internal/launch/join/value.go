package join

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// A published value is any bytes; a value of PMI-1 is one short word. So a published value travels
// in base64url, in pieces. The first piece starts with their number:
//
//	b-address-7      0002.AAECAwQF…
//	b-address-7-1    BgcICQ
const (
	// MaxKey bounds the name of a published value, in bytes.
	MaxKey = 32
	// MaxValue bounds a published value, in bytes.
	MaxValue = 64 << 10

	wireKeyMax = len("b--") + MaxKey + len("1048576") + len("-9999")
	piecesMax  = 9999
	headerLen  = len(singlePiece)
	// singlePiece starts a value that has one piece.
	singlePiece = "0001."
	minRoom     = 32 // bytes of a piece: 64 KiB then take 2731 of them
)

// wireKey names the i-th piece of the value that rank published under key.
func wireKey(rank int, key string, i int) string {
	name := "b-" + key + "-" + strconv.Itoa(rank)
	if i > 0 {
		name += "-" + strconv.Itoa(i)
	}
	return name
}

// checkKey accepts letters, digits, dot and underscore. The dash is the separator.
func checkKey(key string) error {
	bad := strings.IndexFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '.'
	})
	if key == "" || len(key) > MaxKey || bad >= 0 {
		return fmt.Errorf("launch: key %s: "+
			"1 to %d letters, digits, dots and underscores are allowed", pmi.Excerpt(key), MaxKey)
	}
	return nil
}

// split cuts a value into pieces of at most room bytes.
//
// Preconditions: len(value) ≤ MaxValue, room ≥ minRoom.
func split(value []byte, room int) []string {
	coded := base64.RawURLEncoding.EncodeToString(value)
	n := (headerLen + len(coded) + room - 1) / room
	rest := fmt.Sprintf("%04d.%s", n, coded)
	pieces := make([]string, 0, n)
	for len(rest) > room {
		pieces = append(pieces, rest[:room])
		rest = rest[room:]
	}
	return append(pieces, rest)
}

// join is the inverse of split: piece returns the i-th one.
func join(piece func(i int) (string, error)) ([]byte, error) {
	first, err := piece(0)
	if err != nil {
		return nil, err
	}
	number, coded, ok := strings.Cut(first, ".")
	n, err := strconv.ParseUint(number, 10, 16) // no sign
	if !ok || err != nil || len(number) != headerLen-1 || n < 1 || n > piecesMax {
		return nil, errors.New("the value does not begin with a number of pieces")
	}
	var b strings.Builder
	b.WriteString(coded)
	for i := 1; i < int(n); i++ {
		next, err := piece(i)
		if err != nil {
			return nil, fmt.Errorf("piece %d of %d: %w", i+1, n, err)
		}
		b.WriteString(next)
		if base64.RawURLEncoding.DecodedLen(b.Len()) > MaxValue {
			return nil, fmt.Errorf("longer than %d bytes", MaxValue)
		}
	}
	value, err := base64.RawURLEncoding.Strict().DecodeString(b.String())
	if err != nil {
		return nil, err
	}
	if len(value) > MaxValue {
		return nil, errors.New("too long")
	}
	return value, nil
}
