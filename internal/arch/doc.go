// Package arch checks the layers of docs/architecture.md: which package may import which, and which packages
// may use an outside library. It also limits the length of files and functions,
// and forbids words. It consists of tests only. Add a new package to layers_test.go first.
package arch
