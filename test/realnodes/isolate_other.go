//go:build !linux

package realnodes

import "errors"

var errNotLinux = errors.New("containers run on Linux only")

func isolate(string) (code int, err error) { return 1, errNotLinux }

func startReaper(string) (end func() error, err error) { return nil, errNotLinux }

func prepare() error { return errNotLinux }

func ip(...string) error { return errNotLinux }

func unmountBelow(string) error { return errNotLinux }

func makeCgroup(string) error { return errNotLinux }

// Lacking returns why containers cannot run here, empty if they can.
func Lacking() string { return errNotLinux.Error() }
