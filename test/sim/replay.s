//go:build replay

// With this file the compiler accepts a function without a body: the runtime has that of seedRuntime.
