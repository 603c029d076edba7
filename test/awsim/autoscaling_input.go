package awsim

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// reader reads the parameters of one call of the Query protocol. It keeps the first error, so
// that an action reads all parameters and then checks err once.
type reader struct {
	values url.Values
	err    error
}

// query makes an action of a function that only needs the parameters.
func query(do func(r *reader) (any, error)) actionFunc {
	return func(_ context.Context, in input) (any, error) {
		out, err := do(&reader{values: in.Values})
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// changeGroup changes the group that the call names, unless the call has mistakes.
func (r *reader) changeGroup(a *engine, change func(g *group) error) error {
	name := r.must("AutoScalingGroupName")
	if r.err != nil {
		return r.err
	}
	return a.changeGroup(name, change)
}

// view returns what read finds in the state of the engine, unless the call has mistakes.
func view(a *engine, r *reader, read func() (any, error)) (any, error) {
	if r.err != nil {
		return nil, r.err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return read()
}

// viewGroup is view for the group that the call names.
func (r *reader) viewGroup(a *engine, read func(g *group) (any, error)) (any, error) {
	name := r.must("AutoScalingGroupName")
	return view(a, r, func() (any, error) {
		g, err := a.group(name)
		if err != nil {
			return nil, err
		}
		return read(g)
	})
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) has(key string) bool { return r.values.Has(key) }

// any reports whether the call has parameters with this prefix.
func (r *reader) any(prefix string) bool {
	for key := range r.values {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func (r *reader) text(key string) string { return r.values.Get(key) }

// must is a parameter that the API requires.
func (r *reader) must(key string) string {
	value := r.values.Get(key)
	if value == "" {
		r.fail(errNull(lowerFirst(key)))
	}
	return value
}

// number is a whole number within bounds, or what is used without one.
func (r *reader) number(key string, without, least, most int) int {
	text := r.values.Get(key)
	if text == "" {
		return without
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		r.fail(errorf("MalformedInput", "%s is no number: %q", key, text))
	case n < least:
		r.fail(errConstraint(key, text, fmt.Sprintf("Member must have value greater than or equal to %d", least)))
	case n > most:
		r.fail(errConstraint(key, text, fmt.Sprintf("Member must have value less than or equal to %d", most)))
	}
	return n
}

func (r *reader) flag(key string, without bool) bool {
	switch text := r.values.Get(key); text {
	case "":
		return without
	case "true":
		return true
	case "false":
		return false
	default:
		r.fail(errorf("MalformedInput", "%s is no boolean: %q", key, text))
		return without
	}
}

// oneOf is a word of a list that the API checks.
func (r *reader) oneOf(key, without string, words ...string) string {
	text := r.values.Get(key)
	if text == "" {
		return without
	}
	if !slices.Contains(words, text) {
		r.fail(errConstraint(key, text, "Member must satisfy enum value set: ["+strings.Join(words, ", ")+"]"))
	}
	return text
}

// list is Prefix.1, Prefix.2 and so on: EC2's way. Auto Scaling's has ".member" at the prefix's end.
func (r *reader) list(prefix string) []string {
	var out []string
	for i := 1; ; i++ {
		key := prefix + "." + strconv.Itoa(i)
		if !r.values.Has(key) {
			return out
		}
		out = append(out, r.values.Get(key))
	}
}

// refuse fails the call if it has a parameter that is not simulated, be it a value or a structure.
func (r *reader) refuse(parameters ...string) {
	for _, name := range parameters {
		for key := range r.values {
			if key == name || strings.HasPrefix(key, name+".") {
				r.fail(errorf("ValidationError", "awsim does not simulate %s", name))
			}
		}
	}
}

func (r *reader) members(name string) []string { return r.list(name + ".member") }

// each calls do with the prefix of each structure of a list.
func (r *reader) each(list string, do func(prefix string)) {
	for i := 1; ; i++ {
		prefix := list + "." + strconv.Itoa(i) + "."
		if !r.any(prefix) {
			return
		}
		do(prefix)
	}
}

// criterion is one filter of a describe call: any of its values will do.
type criterion struct {
	name   string
	values []string
}

func (c criterion) allows(values ...string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return slices.Contains(c.values, v) })
}

func (r *reader) filters() []criterion {
	var out []criterion
	r.each("Filters.member", func(prefix string) {
		out = append(out, criterion{name: r.text(prefix + "Name"), values: r.members(prefix + "Values")})
	})
	r.each("Filter", func(prefix string) {
		out = append(out, criterion{name: r.text(prefix + "Name"), values: r.list(prefix + "Value")})
	})
	return out
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func errConstraint(key, value, constraint string) *Error {
	return errorf("ValidationError", "1 validation error detected: Value '%s' at '%s' failed to satisfy "+
		"constraint: %s", value, lowerFirst(key), constraint)
}

// paginate is the page of items after token, and the token of the next page. The items must be in the order
// of their keys. The token names the last item of the page, so that pages stay right while items are added
// and removed.
func paginate[T any](
	items []T, key func(T) string, token string, most int,
) (page []T, next string, err error) {
	if token != "" {
		last, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			return nil, "", errorf("InvalidNextToken", "The NextToken value is not valid.")
		}
		items = slices.DeleteFunc(slices.Clone(items), func(item T) bool { return key(item) <= string(last) })
	}
	if len(items) <= most {
		return items, "", nil
	}
	page = items[:most]
	return page, base64.RawURLEncoding.EncodeToString([]byte(key(page[most-1]))), nil
}

// paginateEC2 is paginate with the error code of EC2.
func paginateEC2[T any](
	r *reader, items []T, key func(T) string, most int,
) (page []T, next string, err error) {
	if page, next, err = paginate(items, key, r.text("NextToken"), most); err != nil {
		err = errorf("InvalidPaginationToken", "The pagination token is not valid.")
	}
	return page, next, err
}
