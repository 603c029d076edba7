package agent

import "context"

// Unprotect is unprotect, for tests.
func (a *Agent) Unprotect(ctx context.Context) { a.unprotect(ctx) }
