// Package resp speaks version 2 of the Redis serialization protocol with peers that are not trusted: whatever a peer
// declares or sends, reading one reply takes a bounded amount of memory, and does not panic. Client libraries allocate
// the length that a peer declares.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The bounds of one reply. Reading a reply beyond one of them fails with an error that wraps ErrTooLarge.
const (
	MaxBytes    = 1 << 18 // of all lines and bulk strings together
	MaxElements = 4096    // of all arrays together, and lines of all bulk strings: what reads these may store each
	MaxDepth    = 4       // of arrays within arrays
	maxLine     = 4096    // of one line
)

// ErrTooLarge says that a reply exceeds a bound.
var ErrTooLarge = errors.New("reply exceeds the bounds of a reply")

// Error is an error reply, as the server words it: its first word is a code, such as ERR or NOAUTH.
type Error string

func (e Error) Error() string { return string(e) }

// Value is one reply. A simple string, a bulk string and an integer have a Text; an array has Elements. Null strings
// and arrays are the zero Value. An error within an array has its wording as its Text.
type Value struct {
	Text     string
	Elements []Value
}

// Append appends a command, as an array of bulk strings, to b.
func Append(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, arg := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(arg)), 10)
		b = append(b, "\r\n"...)
		b = append(b, arg...)
		b = append(b, "\r\n"...)
	}
	return b
}

// Reader reads replies.
type Reader struct {
	from *bufio.Reader
}

// NewReader returns a Reader of what from sends.
func NewReader(from io.Reader) *Reader {
	return &Reader{from: bufio.NewReaderSize(from, maxLine)}
}

// Read reads one reply. An error reply is returned as an Error. After any other error the stream cannot be used.
func (r *Reader) Read() (Value, error) {
	p := parser{from: r.from, bytes: MaxBytes, elements: MaxElements}
	value, isError, err := p.value(0)
	if err == nil && isError {
		return Value{}, Error(value.Text)
	}
	return value, err
}

// parser reads one reply, and counts what is left of its bounds.
type parser struct {
	from     *bufio.Reader
	bytes    int
	elements int
}

// value reads one value at a depth of arrays, and reports whether it is an error of the server.
func (p *parser) value(depth int) (v Value, isError bool, err error) {
	line, err := p.line()
	if err != nil {
		return Value{}, false, err
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+':
		return Value{Text: text}, false, nil
	case '-':
		return Value{Text: text}, true, nil
	case ':':
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return Value{}, false, fmt.Errorf("parse integer: %w", err)
		}
		return Value{Text: text}, false, nil
	case '$':
		v.Text, err = p.bulk(text)
		return v, false, err
	case '*':
		v.Elements, err = p.array(text, depth)
		return v, false, err
	}
	return Value{}, false, fmt.Errorf("parse reply: unknown type %q", kind)
}

// line reads a line of at least one byte, without its end.
func (p *parser) line() (string, error) {
	line, err := p.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("read line: %w", ErrTooLarge)
	case err != nil:
		return "", err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return "", errors.New("read line: it is empty or does not end with CR LF")
	}
	if err := p.take(len(line)); err != nil {
		return "", err
	}
	return string(line[:len(line)-2]), nil
}

// bulk reads a bulk string of a declared length. Nothing is allocated before the length was found to be in bounds.
func (p *parser) bulk(length string) (string, error) {
	n, err := p.length(length)
	if err != nil || n < 0 {
		return "", err
	}
	if err := p.take(n + len("\r\n")); err != nil {
		return "", err
	}
	var text strings.Builder
	text.Grow(n)
	if _, err := io.CopyN(&text, p.from, int64(n)); err != nil {
		return "", err
	}
	var end [2]byte
	if _, err := io.ReadFull(p.from, end[:]); err != nil {
		return "", err
	}
	if string(end[:]) != "\r\n" {
		return "", errors.New("read bulk string: it does not end with CR LF")
	}
	return text.String(), p.takeElements(strings.Count(text.String(), "\n"))
}

// array reads the elements of an array of a declared length at a depth.
func (p *parser) array(length string, depth int) ([]Value, error) {
	n, err := p.length(length)
	if err != nil || n < 0 {
		return nil, err
	}
	if depth >= MaxDepth {
		return nil, fmt.Errorf("read array at depth %d: %w", depth, ErrTooLarge)
	}
	if err := p.takeElements(n); err != nil {
		return nil, err
	}
	elements := make([]Value, 0, n)
	for range n {
		v, _, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, v)
	}
	return elements, nil
}

// length parses a declared length; -1 declares a null.
func (p *parser) length(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("parse length: %w", err)
	case n < -1:
		return 0, fmt.Errorf("parse length: it is %d", n)
	case n > MaxBytes:
		return 0, fmt.Errorf("parse length of %d: %w", n, ErrTooLarge)
	}
	return int(n), nil
}

// take takes n bytes off what is left of the bound.
func (p *parser) take(n int) error {
	if n > p.bytes {
		return fmt.Errorf("read %d bytes, %d left: %w", n, p.bytes, ErrTooLarge)
	}
	p.bytes -= n
	return nil
}

// takeElements takes n elements off what is left of the bound.
func (p *parser) takeElements(n int) error {
	if n > p.elements {
		return fmt.Errorf("read %d elements or lines, %d left: %w", n, p.elements, ErrTooLarge)
	}
	p.elements -= n
	return nil
}
