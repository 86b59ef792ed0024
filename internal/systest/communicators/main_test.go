package communicators

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"careless": careless,
	"crowd":    ranktest.Crowd,
	"fatal":    fatal,
	"free":     free,
	"values":   values,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, nil)
}
