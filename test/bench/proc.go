package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of times in /proc/PID/stat: the same on every Linux that Go runs on.
const ticksPerSecond = 100

// peakMemory returns the peak memory of a process in bytes; 0 where there is no /proc. The rusage of a child
// is of no use: it begins with the memory of its parent.
func peakMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return parsePeak(string(text))
}

// parsePeak reads VmHWM of /proc/PID/status.
func parsePeak(status string) int64 {
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmHWM:" && fields[2] == "kB" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// runningCPU returns the processor time that a running process has used; 0 where there is no /proc.
func runningCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseCPU(text)
}

// parseCPU reads utime and stime of /proc/PID/stat. The name in the second field may hold anything, so it
// counts from the last parenthesis.
func parseCPU(stat []byte) time.Duration {
	const utime, stime = 11, 12 // Counted from the state, which follows the name.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0
	}
	var ticks int64
	for _, f := range fields[utime : stime+1] {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
