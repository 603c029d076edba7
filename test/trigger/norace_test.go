//go:build !race

package trigger

// sample returns the numbers below n.
func sample(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}
