//go:build cgo

package verbs

const (
	// slotBytes is the length of a buffer, chunkSlots the number that are registered together.
	slotBytes  = 16 << 10
	chunkSlots = 32
)

// slots are registered buffers of one length, by their numbers.
type slots struct {
	d      *device
	chunks []memory
	free   []uint32
}

// grow registers more of them.
func (s *slots) grow() error {
	m, err := s.d.newMemory(chunkSlots * slotBytes)
	if err != nil {
		return err
	}
	first := uint32(len(s.chunks) * chunkSlots)
	s.chunks = append(s.chunks, m)
	for i := range uint32(chunkSlots) {
		s.free = append(s.free, first+chunkSlots-1-i)
	}
	return nil
}

// reserve makes sure that there are some.
func (s *slots) reserve() error {
	if len(s.chunks) > 0 {
		return nil
	}
	return s.grow()
}

// take takes a free one. An error: there is none, and no more memory for it.
func (s *slots) take() (uint32, error) {
	if len(s.free) == 0 {
		if err := s.grow(); err != nil {
			return 0, err
		}
	}
	n := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return n, nil
}

func (s *slots) give(n uint32) { s.free = append(s.free, n) }

// at gives a slot's bytes and their registration.
func (s *slots) at(n uint32) ([]byte, *memory) {
	m := &s.chunks[n/chunkSlots]
	return m.bytes[n%chunkSlots*slotBytes:][:slotBytes:slotBytes], m
}

func (s *slots) release() {
	for i := range s.chunks {
		s.chunks[i].free()
	}
	s.chunks, s.free = nil, nil
}
