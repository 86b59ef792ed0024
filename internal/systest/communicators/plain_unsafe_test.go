package communicators

import (
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/banyan-hpc/banyan"
)

// plain has padding after A and at its end, and a blank field.
type plain struct {
	A uint8
	B float64
	_ [2]byte
	c [3]struct {
		D int32
		E int8
	}
}

func TestPlainValues(t *testing.T) {
	single(t, func(w *banyan.World) error {
		c := w.Comm()
		err := errors.Join(plainPasses(c, 3.5), plainPasses(c, [0]int{}), plainPasses(c, struct{}{}))
		if err != nil {
			return err
		}
		v := plain{A: 1, B: 2}
		v.c[1].D, v.c[2].E = 5, 6
		memory := unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))
		memory[1], memory[16] = 0xaa, 0xbb // padding, and the blank field
		raw := make([]byte, 8+len(memory))
		r := c.Irecv(raw, 0, 1)
		if err := errors.Join(banyan.SendValue(c, v, 0, 1), lastOf(r.Wait())); err != nil {
			return err
		}
		if raw[8+1] != 0 || raw[8+16] != 0 || raw[8] != 1 {
			return fmt.Errorf("the gaps were sent: %x", raw)
		}
		return plainPasses(c, v)
	})
}

// The limit for encodings is not one for plain values.
func TestLongPlainValue(t *testing.T) {
	err := banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		var v [banyan.ValueLimit + 1]uint8
		if w.Comm().Rank() == 0 {
			v[banyan.ValueLimit] = 7
			return banyan.SendValue(w.Comm(), v, 1, 1)
		}
		v, _, err := banyan.RecvValue[[banyan.ValueLimit + 1]uint8](w.Comm(), 0, 1)
		if v[banyan.ValueLimit] != 7 {
			err = errors.Join(err, errors.New("the value is another"))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
