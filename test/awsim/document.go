package awsim

import (
	"cmp"
	"encoding/xml"
	"slices"
	"strconv"
	"strings"
)

// readDocument is a structure of a Query call that is kept as it was sent and given back as XML.
type document struct {
	name   string
	text   string
	fields []*document
}

// readDocument reads the structure of this name, or is nil if the call has none.
func readDocument(r *reader, name string) *document {
	var out *document
	for _, key := range sortedKeys(r.values) {
		if path, ok := strings.CutPrefix(key, name+"."); ok {
			if out == nil {
				out = &document{}
			}
			out.at(strings.Split(path, ".")...).text = r.text(key)
		}
	}
	return out
}

// at is the field at a path, which is made if it is not there.
func (d *document) at(path ...string) *document {
	if len(path) == 0 {
		return d
	}
	i := slices.IndexFunc(d.fields, func(f *document) bool { return f.name == path[0] })
	if i < 0 {
		i = len(d.fields)
		d.fields = append(d.fields, &document{name: path[0]})
	}
	return d.fields[i].at(path[1:]...)
}

// without gives a field a text where it has none.
func (d *document) without(name, text string) {
	f := d.at(name)
	f.text = cmp.Or(f.text, text)
}

// MarshalXML writes the structure; the numbered entries of a list become as many elements called member.
func (d *document) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if len(d.fields) == 0 {
		return e.EncodeElement(d.text, start)
	}
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	for _, f := range d.fields {
		for _, one := range f.items() {
			if err := e.EncodeElement(one, xml.StartElement{Name: xml.Name{Local: f.name}}); err != nil {
				return err
			}
		}
	}
	return e.EncodeToken(start.End())
}

// items are the entries of a list in their order; what is no list is its own only entry.
func (d *document) items() []*document {
	if d.name != "member" {
		return []*document{d}
	}
	return slices.SortedFunc(slices.Values(d.fields), func(x, y *document) int {
		first, _ := strconv.Atoi(x.name)
		second, _ := strconv.Atoi(y.name)
		return cmp.Compare(first, second)
	})
}
