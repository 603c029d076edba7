package main

import (
	"time"

	"github.com/prometheus/procfs"
)

// peakMemory returns the peak memory of a process in bytes; 0 where there is no /proc. The rusage of a child
// is of no use: it begins with the memory of its parent.
func peakMemory(pid int) int64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, _ := p.NewStatus()
	return int64(status.VmHWM)
}

// runningCPU returns the processor time that a running process has used; 0 where there is no /proc.
func runningCPU(pid int) time.Duration {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, _ := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second))
}
