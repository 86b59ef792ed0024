package communicators

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"unchecked": unchecked,
	"crowd":     ranktest.Crowd,
	"fatal":     fatal,
	"free":      free,
	"values":    values,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, nil)
}
