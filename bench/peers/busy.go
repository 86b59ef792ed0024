package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// busyWatch is how long Busy watches.
const busyWatch = 200 * time.Millisecond

// Busy watches the CPUs for a moment and returns the share of time in which they did something: 0
// when nothing else runs, 1 when all are taken. Call it while the servers wait. On a busy machine
// nothing can be decided.
func Busy(ctx context.Context, cpus [2]int) (float64, error) {
	idle0, all0, err := readIdle(cpus)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(busyWatch):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	idle1, all1, err := readIdle(cpus)
	if err != nil {
		return 0, err
	}
	if all1 <= all0 {
		return 0, errors.New("peers: /proc/stat stands still")
	}
	return 1 - (idle1-idle0)/(all1-all0), nil
}

func readIdle(cpus [2]int) (idle, all float64, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("peers: %w", err)
	}
	idle, all, err = parseStat(string(b), cpus)
	return idle, all, err
}

// parseStat adds up the idle time and all time of the CPUs, in ticks (proc(5): user nice system
// idle iowait irq softirq steal …). Steal is the host's doing, but no less busy.
func parseStat(stat string, cpus [2]int) (idle, all float64, err error) {
	for _, cpu := range cpus {
		_, rest, ok := strings.Cut(stat, "\ncpu"+strconv.Itoa(cpu)+" ")
		line, _, _ := strings.Cut(rest, "\n")
		fields := strings.Fields(line)
		if !ok || len(fields) < 8 {
			return 0, 0, fmt.Errorf("peers: /proc/stat has no line for CPU %d", cpu)
		}
		for i, f := range fields[:8] {
			number, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("peers: /proc/stat, CPU %d: %w", cpu, err)
			}
			ticks := float64(number)
			all += ticks
			if i == 3 || i == 4 {
				idle += ticks
			}
		}
	}
	return idle, all, nil
}
