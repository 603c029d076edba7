package text

// Distance returns how many letters must be added, removed or replaced to make b of a.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // of the prefix of a so far, to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal, row[j+1] = row[j+1], min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
