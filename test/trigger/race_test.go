//go:build race

package trigger

// sample returns each tenth number below n: the race detector makes a rollout take seven times as long.
func sample(n int) (some []int) {
	for i := 0; i < n; i += 10 {
		some = append(some, i)
	}
	return some
}
