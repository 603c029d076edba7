package awsim

import (
	"cmp"
	"slices"
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

// changeTags takes the call's tags off their groups, and then calls add with each. All groups are looked up
// first, so that a mistake changes nothing.
func (a tagAPI) changeTags(r *reader, add func(g *group, t tag)) error {
	return a.updateErr(func() error {
		var changes []func()
		r.each("Tags.member", func(prefix string) {
			t := tag{
				Key: r.must(prefix + "Key"), Value: r.text(prefix + "Value"),
				Propagate: r.flag(prefix+"PropagateAtLaunch", false),
			}
			g, err := a.group(r.must(prefix + "ResourceId"))
			if err != nil {
				r.fail(err)
			}
			changes = append(changes, func() {
				g.tags = slices.DeleteFunc(g.tags, func(old tag) bool { return old.Key == t.Key })
				add(g, t)
			})
		})
		if r.err != nil {
			return r.err
		}
		for _, change := range changes {
			change()
		}
		return nil
	})
}

func (a tagAPI) createOrUpdateTags(r *reader) (any, error) {
	return nil, a.changeTags(r, func(g *group, t tag) {
		g.tags = append(g.tags, t)
		slices.SortFunc(g.tags, func(x, y tag) int { return cmp.Compare(x.Key, y.Key) })
	})
}

func (a tagAPI) deleteTags(r *reader) (any, error) {
	return nil, a.changeTags(r, func(*group, tag) {})
}

// describeTags shows the tags of the groups that its filters name.
func (a tagAPI) describeTags(r *reader) (any, error) {
	filters := r.filters()
	for _, f := range filters {
		if f.name != "auto-scaling-group" {
			r.fail(errorf("ValidationError", "awsim does not simulate the filter %s", f.name))
		}
	}
	return view(a.engine, r, func() (any, error) {
		var out struct {
			Tags []tagXML `xml:"Tags>member"`
		}
		for _, name := range sortedKeys(a.groups) {
			if slices.ContainsFunc(filters, func(f criterion) bool { return !f.allows(name) }) {
				continue
			}
			out.Tags = append(out.Tags, a.described(a.groups[name]).Tags...)
		}
		return out, nil
	})
}
