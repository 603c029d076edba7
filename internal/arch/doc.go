// Package arch holds the import table of docs/architecture.md: which room may import which, and which room
// an outside library belongs to. It is tests alone; a new room, or a new arrow, is written into
// rules_test.go first.
package arch
