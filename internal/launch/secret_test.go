package launch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A launcher that breaks the protocol in the middle of the secret does not bring
// it into the error.
func TestErrorsQuoteNoValue(t *testing.T) {
	const value = "0001.c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I"
	for _, line := range []string{
		"cmd=get_result rc=0 value=" + value + "\x01",
		"cmd=put kvsname=k key=b-job-secret-0 value=" + value + " x",
		"get_result value=" + value,
		"cmd=get_result value=" + value + strings.Repeat(" a=b", fieldsMax),
	} {
		_, err := parse(line)
		require.Error(t, err)
		require.NotContains(t, err.Error(), value[:8], line)
	}
	_, err := join(func(int) (string, error) { return value[2:], nil })
	require.ErrorContains(t, err, "number of pieces")
	require.NotContains(t, err.Error(), value[5:10])
	_, err = join(func(int) (string, error) { return value + "!", nil })
	require.Error(t, err)
	require.NotContains(t, err.Error(), value[5:10])
}
