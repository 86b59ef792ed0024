package strangers

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// crowd keeps Config.Crowd strangers at the port until ctx ends.
func (f *flood) crowd(ctx context.Context) {
	begin := time.Now()
	last, owed := begin, 0.0 // strangers that Rate allows to come back
	for ctx.Err() == nil {
		now := time.Now()
		owed = min(owed+f.Rate*now.Sub(last).Seconds(), float64(f.Crowd))
		last = now
		f.greet(now)
		for len(f.coming)+len(f.guests) < f.Crowd && (f.made < f.Crowd || owed >= 1) && ctx.Err() == nil {
			if f.made >= f.Crowd {
				owed--
			}
			f.make(now)
		}
		f.drip(now)
		f.sweep()
		sleep(dozeMin)
	}
	f.report.Elapsed = time.Since(begin)
	f.dismiss(begin)
}

// sweep ends the connections that the port's owner has ended.
func (f *flood) sweep() {
	polls := make([]unix.PollFd, len(f.guests))
	for i, s := range f.guests {
		polls[i] = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLRDHUP}
	}
	if n, err := unix.Poll(polls, 0); n <= 0 || err != nil {
		return
	}
	i := 0
	f.guests = slices.DeleteFunc(f.guests, func(s *stranger) bool {
		ended := polls[i].Revents != 0
		i++
		if ended {
			f.end(s)
		}
		return ended
	})
}
