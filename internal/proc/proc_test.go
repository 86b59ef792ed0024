package proc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors end with a cause, which is to be understood without documents.
func TestCauseInErrors(t *testing.T) {
	for want, c := range map[string]Cause{
		"ended, how is not known":               {},
		"exited with code 3 without finalizing": {Kind: Exited, Code: 3},
		"killed by SIGKILL":                     {Kind: Signaled, Code: 9},
		"connection lost":                       {Kind: Connection},
		"silent":                                {Kind: Heartbeat},
		"silent for longer than detect.timeout, and killed for that": {Kind: Fenced},
		"it counts this process as dead":                             {Kind: Refused},
		"unreachable, because the launcher is gone, which had its address: ranks that have exchanged a message before reach each other without one": {Kind: Unreachable, Code: NoAddress},
	} {
		require.Equal(t, want, c.String())
	}
}
