package startup

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"aborts":         aborts,
	"aborts unread":  abortsUnread,
	"crowd":          ranktest.Crowd,
	"first dies":     firstDies,
	"first stops":    firstStops,
	"held back":      heldBack,
	"modes":          ranktest.Modes,
	"leave":          leave,
	"node memory":    nodeMemory,
	"ring":           ranktest.Ring,
	"show algorithm": showAlgorithm,
	"strangers":      strangers,
	"unmet pair":     unmetPair,
}

var programs = ranktest.Programs{
	"algorithms differ":   algorithmsDiffer,
	"counted":             counted,
	"dead start":          deadStart,
	"debug differs":       debugDiffers,
	"few files":           fewFiles,
	"hangs":               hangs,
	"home":                inForeignHome,
	"launches strangers":  func() error { return ranktest.LaunchRole("strangers", strangerRanks) },
	"launches unmet pair": func() error { return ranktest.LaunchRole("unmet pair", strangerRanks) },
	"naps":                naps,
	"own networks":        ownNetworks,
	"runs":                runToEnd,
	"traceless":           traceless,
	"unwinds":             unwind,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, programs)
}
