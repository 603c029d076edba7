package drain

// line says how many pods of a drain each budget holds that it has looked at. They have turns when the
// deadline forces it; those of earlier drains come first, which is why these must look again if there are
// more.
func (l *ledger) line(r *run, looked map[string]struct{}, held map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range looked {
		a := l.find(name)
		if a == nil {
			continue
		}
		more := held[name] > a.held[r]
		if a.held[r] = held[name]; held[name] == 0 {
			delete(a.held, r)
		}
		for other := range a.claims {
			if more && other.turn(r) < 0 {
				other.wakeUp()
			}
		}
	}
}
