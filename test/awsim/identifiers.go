package awsim

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
)

// source returns the randomness of one thing, by its names. It depends on nothing but them and the seed, so that
// the order in which goroutines run changes no identifier.
func (o Options) source(names ...string) *rand.Rand {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(o.Seed, h.Sum64()))
}

// identifiers are those of requests, in their order.
type identifiers struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (i *identifiers) next() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return uuid(i.rand)
}
