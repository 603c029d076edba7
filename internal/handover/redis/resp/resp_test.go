package resp_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/node-drainer/node-drainer/internal/handover/redis/resp"
)

func TestRead(t *testing.T) {
	text := func(s string) resp.Value { return resp.Value{Text: s} }
	for name, tt := range map[string]struct {
		sent string
		want resp.Value
	}{
		"simple string": {"+OK\r\n", text("OK")},
		"empty string":  {"$0\r\n\r\n", text("")},
		"bulk string":   {"$5\r\na\r\nbc\r\n", text("a\r\nbc")},
		"integer":       {":-17\r\n", text("-17")},
		"null string":   {"$-1\r\n", resp.Value{}},
		"null array":    {"*-1\r\n", resp.Value{}},
		"empty array":   {"*0\r\n", resp.Value{Elements: []resp.Value{}}},
		"nested array": {
			"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
			resp.Value{Elements: []resp.Value{{Elements: []resp.Value{text("1")}}, text("x")}},
		},
		"error within an array": {"*1\r\n-ERR no\r\n", resp.Value{Elements: []resp.Value{text("ERR no")}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(tt.sent)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v and error %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestReadError(t *testing.T) {
	_, err := read("-NOAUTH Authentication required.\r\n")
	if want := resp.Error("NOAUTH Authentication required."); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		sent     string
		tooLarge bool
	}{
		"nothing":                        {"", false},
		"unknown type":                   {"!1\r\n", false},
		"empty line":                     {"\r\n", false},
		"line feed alone":                {"+OK\n", false},
		"integer out of range":           {":9223372036854775808\r\n", false},
		"no length":                      {"$\r\n\r\n", false},
		"negative length":                {"$-2\r\n", false},
		"cut string":                     {"$5\r\nab", false},
		"string without an end":          {"$2\r\nabcd", false},
		"length beyond 64 bits":          {"$9000000000000000000000\r\n", false},
		"length that overflows":          {"$9000000000000000000\r\n", true},
		"length of 3 GB":                 {"$3000000000\r\n", true},
		"array of 10^9":                  {"*1000000000\r\n", true},
		"array of 4,097":                 {"*4097\r\n", true},
		"arrays of 8,000 in all":         {"*2\r\n*4000\r\n" + strings.Repeat(":1\r\n", 4000) + "*4000\r\n", true},
		"depth 5":                        {strings.Repeat("*1\r\n", 5) + ":1\r\n", true},
		"line without an end":            {"+" + strings.Repeat("a", 1<<13), true},
		"string of 4,097 lines":          {"$4097\r\n" + strings.Repeat("\n", 4097) + "\r\n", true},
		"strings beyond the bytes":       {"*2\r\n" + strings.Repeat(bulk(resp.MaxBytes/2), 2), true},
		"more arrays than the lines fit": {strings.Repeat("*1\r\n", 1<<16), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(tt.sent)
			if err == nil || errors.Is(err, resp.ErrTooLarge) != tt.tooLarge {
				t.Errorf("got error %v, want one that is ErrTooLarge: %t", err, tt.tooLarge)
			}
		})
	}
}

// TestReadLargest holds that what is within the bounds is read.
func TestReadLargest(t *testing.T) {
	for name, sent := range map[string]string{
		"string":   bulk(resp.MaxBytes - 64),
		"elements": "*4096\r\n" + strings.Repeat(":1\r\n", 4096),
		"depth":    strings.Repeat("*1\r\n", resp.MaxDepth) + ":1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(sent); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAppend(t *testing.T) {
	if got, want := string(resp.Append(nil, "SET", "a", "\r\n")), "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzRead checks what a Reader promises for any bytes; make fuzz gives it a million.
func FuzzRead(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		f.Add([]byte(generate(random)))
	}
	f.Fuzz(func(t *testing.T, sent []byte) { checkBounds(t, string(sent)) })
}

// TestGenerated checks the same for inputs that look more like replies than random bytes do.
func TestGenerated(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 5_000 {
		checkBounds(t, generate(random))
	}
}

// checkBounds reads all replies of an input. None may allocate more than the bounds allow: the text once, the elements,
// and the buffers.
func checkBounds(t *testing.T, sent string) {
	t.Helper()
	const most = resp.MaxBytes + resp.MaxElements*int(unsafe.Sizeof(resp.Value{})) + 1<<17
	r := resp.NewReader(strings.NewReader(sent))
	for {
		before := allocated()
		_, err := r.Read()
		if grown := allocated() - before; grown > uint64(most) {
			t.Fatalf("%q: a reply took %d bytes", sent, grown)
		}
		if serverError := resp.Error(""); err != nil && !errors.As(err, &serverError) {
			return
		}
	}
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// generate returns some values, many of them with a wrong or a hostile length.
func generate(random *rand.Rand) string {
	var b strings.Builder
	for range 1 + random.IntN(20) {
		lengths := []string{"0", "1", "2", "-1", "4096", "1048576", "3000000000", "9000000000000000000", "x", ""}
		length := lengths[random.IntN(len(lengths))]
		switch random.IntN(6) {
		case 0:
			b.WriteString("+OK\r\n")
		case 1:
			b.WriteString("-ERR no\r\n")
		case 2:
			b.WriteString(":" + length + "\r\n")
		case 3:
			b.WriteString("$" + length + "\r\n" + strings.Repeat("a", random.IntN(4)) + "\r\n")
		case 4:
			b.WriteString("*" + length + "\r\n")
		case 5:
			b.WriteString(bulk(random.IntN(100)))
		}
	}
	return b.String()
}

func bulk(n int) string { return "$" + strconv.Itoa(n) + "\r\n" + strings.Repeat("a", n) + "\r\n" }

func read(sent string) (resp.Value, error) {
	return resp.NewReader(io.MultiReader(strings.NewReader(sent))).Read()
}
