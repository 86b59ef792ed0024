package collectives

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"many":                        manyRank,
	"non-blocking":                interleavedRank,
	"non-blocking allocs":         nonblockingAllocs,
	"non-blocking, one computes":  absentRank,
	"non-blocking, one killed":    killedRank,
	"collective allocs":           collectiveAllocs,
	"collectives":                 collectivesRank,
	"completed":                   completedRank,
	"corrected":                   correctedRank,
	"differing":                   differ,
	"exchanges":                   exchangesRank,
	"huge":                        huge,
	"flat":                        flatRank,
	"levels":                      levelsRank,
	"levels, broken chain":        levelsBreakTheChain,
	"levels differ":               levelsDiffer,
	"levels, last one late":       levelsLastOneLate,
	"levels, root leaves":         levelsRootLeaves(8),
	"levels, root leaves long":    levelsRootLeaves(5000),
	"long chain":                  longChain,
	"ranged":                      rangedRank,
	"root that leaves":            rootThatLeaves(8, blockingBcast),
	"root that leaves long":       rootThatLeaves(60_000, blockingBcast),
	"root that leaves long later": rootThatLeaves(60_000, nonblockingBcast),
	"staged":                      stagedRank,
	"tables":                      tablesRank,
	"uniform":                     uniformRank,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, nil)
}
