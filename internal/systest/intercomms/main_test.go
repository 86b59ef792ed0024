package intercomms

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"two sides":             everyCall,
	"two sides, one killed": killedRank,
	"two sides, allocs":     countAllocations,
}

func TestMain(m *testing.M) { ranktest.Main(m, roles, nil) }
