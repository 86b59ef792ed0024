package repairs

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"answers":         answers,
	"cycles":          cycles,
	"dwindle":         dwindleRank,
	"revokes":         revokes,
	"second shrink":   secondShrink,
	"silent recovery": silentRecovery,
	"survive":         survive,
	"validates":       validates,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, nil)
}
