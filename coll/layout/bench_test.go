package layout

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPack measures packing, by bytes of the elements.
func BenchmarkPack(b *testing.B) {
	for name, shape := range map[string][3]int{
		"columns of one":   {4096, 1, 512},
		"blocks of 16":     {4096, 16, 512},
		"blocks of a page": {256, 512, 1024},
	} {
		b.Run(name, func(b *testing.B) {
			l, err := Vector(shape[0], shape[1], shape[2])
			require.NoError(b, err)
			v, err := Of(make([]float64, l.Extent()), l)
			require.NoError(b, err)
			b.SetBytes(int64(8 * l.Count()))
			b.ReportAllocs()
			for b.Loop() {
				v.Pack()
			}
		})
	}
}
