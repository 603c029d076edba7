package surge

import (
	"strings"
	"testing"
)

// FuzzRecord checks that a record is of the StatefulSet that its key names, whatever its value is.
func FuzzRecord(f *testing.F) {
	f.Add("shop.redis", `{"uid":"1","replicas":3,"pod":"redis-3","for":"redis-0","scaled":true}`)
	f.Add("shop", `{"Namespace":"other","namespace":"other"}`)
	f.Fuzz(func(t *testing.T, key, value string) {
		s, err := parse(key, value)
		if err == nil && strings.TrimSuffix(key, ".") != strings.TrimSuffix(keyOf(s), ".") {
			t.Fatalf("the record of %q is that of %q", key, keyOf(s))
		}
	})
}
