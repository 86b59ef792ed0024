package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Pauses between a guest's attempts to reach rank 0, which may start later.
const (
	knockPauseMin = 5 * time.Millisecond
	knockPauseMax = 250 * time.Millisecond
)

// visit connects to rank 0 and waits until it listens, but no longer than a
// start-up may take.
func visit(ctx context.Context, p place) (connection, error) {
	limited, cancel := context.WithTimeout(ctx, p.at.timeout)
	defer cancel()
	var last error
	for pause := knockPauseMin; ; pause = min(2*pause, knockPauseMax) {
		conn, err := knock(limited, p)
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, ErrRefused) || errors.Is(err, ErrProtocol) {
			return nil, err
		}
		if last == nil || limited.Err() == nil {
			last = err // the error of an attempt that was cut short says less
		}
		select {
		case <-time.After(pause):
		case <-limited.Done():
			if ctx.Err() != nil {
				return nil, fmt.Errorf("launch: join: %w", context.Cause(ctx))
			}
			why := fmt.Sprintf("has not answered at %s within %v: %v", p.at.addr, p.at.timeout, last)
			return nil, &MissingError{Lost: []Lost{{0, why}}, Total: 1}
		}
	}
}

// knock is one attempt. An error of class ErrRefused or ErrProtocol will not
// change with time.
func knock(ctx context.Context, p place) (connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.at.addr)
	if err != nil {
		return nil, err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = introduce(conn, p)
	if !interrupt() && err == nil {
		err = context.Cause(ctx) // its deadline has passed or will
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// introduce says hello and reads the answer.
func introduce(conn net.Conn, p place) error {
	if _, err := conn.Write([]byte(hello{p.rank, p.size, p.at.token}.line())); err != nil {
		return err
	}
	r := bufio.NewReaderSize(conn, helloMax)
	line, err := readLine(r)
	said := excerpt(line)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		said = err.Error()
	case err != nil:
		return err
	}
	why, ok := parseWelcome(line)
	switch {
	case err != nil || !ok || r.Buffered() > 0:
		return fmt.Errorf("launch: %w: what answers at %s (MASTER_ADDR and MASTER_PORT) is not rank 0 of a Banyan job: it said %s",
			ErrProtocol, p.at.addr, said)
	case why != nil:
		return fmt.Errorf("launch: rank 0 at %s: %w: %w", p.at.addr, ErrRefused, why)
	}
	return nil
}
