//go:build race

package sim_test

// worlds is how many worlds TestWorlds runs. The race detector makes each eight times as long.
const worlds = 30
