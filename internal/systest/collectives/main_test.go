package collectives

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"begun":             begunRank,
	"begun allocs":      begunAllocs,
	"begun and absent":  begunAndAbsent,
	"begun and killed":  begunAndKilled,
	"collective allocs": collectiveAllocs,
	"collectives":       collectivesRank,
	"completed":         completedRank,
	"flat":              flatRank,
	"long chain":        longChain,
	"ranged":            rangedRank,
	"staged":            stagedRank,
	"uniform":           uniformRank,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, nil)
}
