package transcripts

import (
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"transcript": follow,
}

func TestMain(m *testing.M) {
	ranktest.Main(m, roles, nil)
}
