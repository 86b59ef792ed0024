//go:build !cgo

package verbs

import (
	"errors"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
)

// Config says how to open the endpoint of one process.
type Config struct {
	Sockets tcp.Config
	Ports   []Port
	Timeout time.Duration
	Wait    bool
}

// Open fails: this program was built without cgo.
func Open(Config) (fabric.Provider, error) {
	return nil, errors.New("verbs: this program was built without cgo: build it with CGO_ENABLED=1 and the headers of " +
		"libibverbs (libibverbs-dev, rdma-core-devel)")
}
