package windows

import (
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"all add":          allAdd,
	"without messages": withoutMessages,
	"random program":   randomProgram,
	"turns":            turns,
	"long operations":  func(w *banyan.World) error { return longOperations(w.Comm()) },
	"operations":       func(w *banyan.World) error { return operations(w.Comm()) },
}

func TestMain(m *testing.M) { ranktest.Main(m, roles, nil) }
