//go:build !race

package sim_test

// worlds is how many worlds TestWorlds runs.
const worlds = 300
