package awsim

import (
	"slices"
	"strconv"
)

type tagXML struct {
	Key               string
	Value             string
	PropagateAtLaunch bool
	ResourceID        string `xml:"ResourceId"`
	ResourceType      string
}

func (t tag) wire(group string) tagXML {
	return tagXML{
		Key: t.Key, Value: t.Value, PropagateAtLaunch: t.Propagate,
		ResourceID: group, ResourceType: "auto-scaling-group",
	}
}

func (t tagXML) key() string { return t.ResourceID + "\x00" + t.Key }

// readTags reads a list of tags, whatever groups they are for.
func readTags(r *reader) []tag {
	var out []tag
	r.each("Tags.member", func(prefix string) {
		out = append(out, tag{
			Key:       r.must(prefix + "Key"),
			Value:     r.text(prefix + "Value"),
			Propagate: r.flag(prefix+"PropagateAtLaunch", false),
		})
	})
	return out
}

// tagged calls do with each group that the call's tags name. All groups are looked up before the first
// call, so that a mistake changes nothing. It needs mu.
func (a tagAPI) tagged(r *reader, do func(g *group, t tag)) error {
	tags, groups := readTags(r), []*group(nil)
	r.each("Tags.member", func(prefix string) {
		g, err := a.group(r.must(prefix + "ResourceId"))
		if err != nil {
			r.fail(err)
		}
		groups = append(groups, g)
	})
	if r.err != nil {
		return r.err
	}
	for i, t := range tags {
		do(groups[i], t)
	}
	return nil
}

func (a tagAPI) createOrUpdateTags(r *reader) (any, error) {
	return nil, a.updateErr(func() error {
		return a.tagged(r, func(g *group, t tag) { g.setTags([]tag{t}) })
	})
}

func (a tagAPI) deleteTags(r *reader) (any, error) {
	return nil, a.updateErr(func() error {
		return a.tagged(r, func(g *group, t tag) {
			g.tags = slices.DeleteFunc(g.tags, func(old tag) bool { return old.Key == t.Key })
		})
	})
}

type describeTagsXML struct {
	Tags      []tagXML `xml:"Tags>member"`
	NextToken string   `xml:",omitempty"`
}

func (a tagAPI) describeTags(r *reader) (any, error) {
	filters, most := r.filters(), r.number("MaxRecords", 50, 1, 100)
	return view(a.engine, r, func() (any, error) {
		var all []tagXML
		for _, name := range sortedKeys(a.groups) {
			for _, t := range a.groups[name].tags {
				if wire := t.wire(name); wire.passes(filters) {
					all = append(all, wire)
				}
			}
		}
		page, next, err := paginate(all, tagXML.key, r.text("NextToken"), most)
		return describeTagsXML{Tags: page, NextToken: next}, err
	})
}

func (t tagXML) passes(filters []criterion) bool {
	fields := map[string]string{
		"auto-scaling-group":  t.ResourceID,
		"key":                 t.Key,
		"value":               t.Value,
		"propagate-at-launch": strconv.FormatBool(t.PropagateAtLaunch),
	}
	for _, f := range filters {
		if value, known := fields[f.name]; !known || !f.allows(value) {
			return false
		}
	}
	return true
}
