package topologies

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"borders":                borders,
	"borders allocs":         bordersAllocs,
	"neighbours":             neighboursRank,
	"neighbours allocs":      neighboursAllocs,
	"neighbours, one killed": killedRank,
}

func TestMain(m *testing.M) { ranktest.Main(m, roles, nil) }
