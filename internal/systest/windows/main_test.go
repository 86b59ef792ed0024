package windows

import (
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"random program": randomProgram,
	"operations":     func(w *banyan.World) error { return operations(w.Comm()) },
}

func TestMain(m *testing.M) { ranktest.Main(m, roles, nil) }
