package messages

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"absent":        absent,
	"allocs":        allocs,
	"counters":      counters,
	"peer counters": countedPeer,
	"crowd":         ranktest.Crowd,
	"die":           dieInMidStream,
	"early end":     earlyEnd,
	"left":          left,
	"long":          long,
	"matching":      matching,
	"modes":         ranktest.Modes,
	"no route":      noRoute,
	"orders":        orders,
	"pending":       pending,
	"polls":         polls,
	"ring":          ranktest.Ring,
	"routes":        routes,
	"several":       several,
	"threads":       threads,
	"unbridled":     unbridled,
	"wrong":         wrongArguments,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, nil)
}
