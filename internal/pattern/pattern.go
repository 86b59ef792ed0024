package pattern

// Fill writes the pattern of a seed.
func Fill(b []byte, seed byte) {
	for i := range b {
		b[i] = at(seed, i)
	}
}

// Spoil makes each byte differ from the pattern of a seed.
func Spoil(b []byte, seed byte) {
	for i := range b {
		b[i] = ^at(seed, i)
	}
}

// Wrong returns how many bytes differ from the pattern of a seed.
func Wrong(b []byte, seed byte) int {
	wrong := 0
	for i, v := range b {
		if v != at(seed, i) {
			wrong++
		}
	}
	return wrong
}

// at differs from one byte, one line and one page to the next. The factor of the
// seed keeps the next message from looking like this one shifted by a byte.
func at(seed byte, i int) byte { return seed*17 + byte(i) + byte(i>>8)*7 + byte(i>>16)*31 }
