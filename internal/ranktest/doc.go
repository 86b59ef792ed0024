// Package ranktest runs ranks for tests of the whole system. Floor 8.
//
// A test binary is also the program of its ranks. TestMain calls [Main] with the roles that its
// tests need; [Job] then starts the binary once per rank, with the name of a role in the
// environment:
//
//	func TestMain(m *testing.M) { ranktest.Main(m, ranktest.Roles{"ring": ranktest.Ring}, nil) }
//	func TestRing(t *testing.T) { ranktest.Succeed(t, 5, "ring") }
//
// The same role runs in the simulator, where a seed decides the order of events and ranks fail at
// chosen times or steps: [WithDeath], [SimulatedJob] and [WithKills] are such simulations.
//
// A role returns an error for a wrong result. The package imports the testing package, so only
// tests import it.
package ranktest
