package deploy_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// hashicorp/hcl and zclconf/go-cty implement Terraform's language: they format, parse and evaluate it as
// Terraform does, but need neither its binary nor a provider.

// module is a parsed Terraform module.
type module struct {
	dir    string
	blocks []*hclsyntax.Block
}

// loadModule parses all files of a module.
func loadModule(t *testing.T, dir string) module {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no module in %s: %v", dir, err)
	}
	m := module{dir: dir}
	for _, file := range files {
		parsed, diags := hclparse.NewParser().ParseHCLFile(file)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		m.blocks = append(m.blocks, parsed.Body.(*hclsyntax.Body).Blocks...)
	}
	return m
}

// all returns the blocks of a type, in the order of the files.
func (m module) all(kind string) []*hclsyntax.Block {
	return slices.DeleteFunc(slices.Clone(m.blocks), func(b *hclsyntax.Block) bool { return b.Type != kind })
}

// plan is the module evaluated with inputs. It implements the part of Terraform's evaluation that the module
// uses, with HCL's own expressions and functions, and without providers: computed returns what they would
// compute.
type plan struct {
	t         *testing.T
	module    module
	variables map[string]cty.Value
	locals    map[string]cty.Value
	instances map[string]map[string]map[string]cty.Value // by type.name, then by the key of for_each or count
	shapes    map[string]cty.Value                       // by type.name, the values that expressions see
	outputs   map[string]cty.Value
}

// errRefused is the error of a validation or precondition that fails.
var errRefused = errors.New("the module refuses the inputs")

// evaluate plans the module. It returns an error if the module refuses the inputs. Errors in the module fail
// the test.
func (m module) evaluate(t *testing.T, inputs map[string]cty.Value) (*plan, error) {
	t.Helper()
	p := &plan{
		t: t, module: m, variables: map[string]cty.Value{}, locals: map[string]cty.Value{},
		instances: map[string]map[string]map[string]cty.Value{}, shapes: map[string]cty.Value{}, outputs: map[string]cty.Value{},
	}
	if err := p.readVariables(inputs); err != nil {
		return nil, err
	}
	pending := p.work()
	for len(pending) > 0 {
		rest := slices.DeleteFunc(slices.Clone(pending), func(w pendingWork) bool {
			ready := p.ready(w.needs)
			if ready {
				w.do()
			}
			return ready
		})
		if len(rest) == len(pending) {
			t.Fatalf("%s refers to what there is not, or to itself", rest[0].what)
		}
		pending = rest
	}
	return p, p.preconditions()
}

func (p *plan) readVariables(inputs map[string]cty.Value) error {
	p.t.Helper()
	for _, b := range p.module.all("variable") {
		name, attrs := b.Labels[0], b.Body.Attributes
		kind, diags := typeexpr.TypeConstraint(attrs["type"].Expr)
		if diags.HasErrors() {
			p.t.Fatal(diags)
		}
		value, given := inputs[name]
		if !given {
			if attrs["default"] == nil {
				p.t.Fatalf("the input %s is missing", name)
			}
			value = p.value(attrs["default"].Expr, nil)
		}
		converted, err := convert.Convert(value, kind)
		if err != nil {
			p.t.Fatalf("variable %s: %v", name, err)
		}
		p.variables[name] = converted
	}
	for name := range inputs {
		if _, ok := p.variables[name]; !ok {
			p.t.Fatalf("unknown variable %s", name)
		}
	}
	for _, b := range p.module.all("variable") {
		if err := p.checkConditions(b.Body, "validation"); err != nil {
			return err
		}
	}
	return nil
}

// checkConditions checks the conditions of a block.
func (p *plan) checkConditions(body *hclsyntax.Body, kind string) error {
	p.t.Helper()
	for _, check := range body.Blocks {
		if check.Type == kind && p.value(check.Body.Attributes["condition"].Expr, nil).False() {
			return fmt.Errorf("%w: %s", errRefused, p.value(check.Body.Attributes["error_message"].Expr, nil).AsString())
		}
	}
	return nil
}

func (p *plan) preconditions() error {
	p.t.Helper()
	for _, b := range p.module.all("resource") {
		for _, lifecycle := range b.Body.Blocks {
			if err := p.checkConditions(lifecycle.Body, "precondition"); err != nil {
				return err
			}
		}
	}
	return nil
}

// pendingWork is a local or resource that is evaluated after what it refers to.
type pendingWork struct {
	what  string
	needs []hcl.Traversal
	do    func()
}

func (p *plan) work() (all []pendingWork) {
	for _, b := range p.module.all("locals") {
		for name, a := range b.Body.Attributes {
			all = append(all, pendingWork{"local." + name, a.Expr.Variables(), func() { p.locals[name] = p.value(a.Expr, nil) }})
		}
	}
	for _, b := range p.module.all("resource") {
		var needs []hcl.Traversal
		for name, a := range b.Body.Attributes {
			if name != "depends_on" {
				needs = append(needs, a.Expr.Variables()...)
			}
		}
		all = append(all, pendingWork{strings.Join(b.Labels, "."), needs, func() { p.resource(b) }})
	}
	for _, b := range p.module.all("output") {
		value := b.Body.Attributes["value"].Expr
		all = append(all, pendingWork{"output." + b.Labels[0], value.Variables(), func() { p.outputs[b.Labels[0]] = p.value(value, nil) }})
	}
	return all
}

// ready reports whether all references have been evaluated.
func (p *plan) ready(needs []hcl.Traversal) bool {
	for _, need := range needs {
		if len(need) < 2 {
			continue
		}
		name := need[1].(hcl.TraverseAttr).Name
		switch need.RootName() {
		case "local":
			if _, ok := p.locals[name]; !ok {
				return false
			}
		case "var", "data", "path", "each", "count":
		default:
			if _, ok := p.shapes[need.RootName()+"."+name]; !ok {
				return false
			}
		}
	}
	return true
}

// resource evaluates all instances of a resource.
func (p *plan) resource(b *hclsyntax.Block) {
	p.t.Helper()
	address, attrs := strings.Join(b.Labels, "."), b.Body.Attributes
	p.instances[address] = map[string]map[string]cty.Value{}
	one := func(key string, each map[string]cty.Value) cty.Value {
		instance := map[string]cty.Value{}
		for name, a := range attrs {
			if !slices.Contains([]string{"for_each", "count", "depends_on"}, name) {
				instance[name] = p.value(a.Expr, each)
			}
		}
		p.instances[address][key] = instance
		return cty.ObjectVal(computed(b.Labels[0], instance))
	}
	switch {
	case attrs["for_each"] != nil:
		shape := map[string]cty.Value{}
		for it := p.value(attrs["for_each"].Expr, nil).ElementIterator(); it.Next(); {
			k, v := it.Element()
			shape[k.AsString()] = one(k.AsString(), map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": k, "value": v})})
		}
		p.shapes[address] = cty.ObjectVal(shape)
	case attrs["count"] != nil:
		var shape []cty.Value
		n, _ := p.value(attrs["count"].Expr, nil).AsBigFloat().Int64()
		for i := range n {
			shape = append(shape, one(fmt.Sprint(i), nil))
		}
		p.shapes[address] = cty.TupleVal(shape)
	default:
		p.shapes[address] = one("", nil)
	}
}

// computed adds the attributes that the provider computes.
func computed(kind string, instance map[string]cty.Value) map[string]cty.Value {
	all := maps.Clone(instance)
	if all["name"] == cty.NilVal {
		return all
	}
	name := all["name"].AsString()
	switch kind {
	case "aws_sqs_queue":
		all["arn"], all["url"], all["id"] = cty.StringVal(queueARN(name)), cty.StringVal(queueURL(name)), cty.StringVal(queueURL(name))
	case "aws_iam_role":
		all["arn"] = cty.StringVal(roleARN(name))
	}
	return all
}

func queueARN(name string) string { return "arn:aws:sqs:eu-central-1:123456789012:" + name }
func queueURL(name string) string {
	return "https://sqs.eu-central-1.amazonaws.com/123456789012/" + name
}
func roleARN(name string) string { return "arn:aws:iam::123456789012:role/" + name }

// value evaluates an expression with the values known so far.
func (p *plan) value(expr hcl.Expression, more map[string]cty.Value) cty.Value {
	p.t.Helper()
	one := func(name, attribute, value string) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{name: cty.ObjectVal(map[string]cty.Value{attribute: cty.StringVal(value)})})
	}
	scope := map[string]cty.Value{
		"var": cty.ObjectVal(p.variables), "local": cty.ObjectVal(p.locals),
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(p.module.dir)}),
		"data": cty.ObjectVal(map[string]cty.Value{
			"aws_caller_identity": one("this", "account_id", "123456789012"),
			"aws_partition":       one("this", "partition", "aws"),
			"aws_region":          one("this", "id", "eu-central-1"),
		}),
	}
	byKind := map[string]map[string]cty.Value{}
	for address, shape := range p.shapes {
		kind, name, _ := strings.Cut(address, ".")
		if byKind[kind] == nil {
			byKind[kind] = map[string]cty.Value{}
		}
		byKind[kind][name] = shape
	}
	for kind, shapes := range byKind {
		scope[kind] = cty.ObjectVal(shapes)
	}
	maps.Copy(scope, more)
	value, diags := expr.Value(&hcl.EvalContext{Variables: scope, Functions: functions()})
	if diags.HasErrors() {
		p.t.Fatal(diags)
	}
	return value
}

// functions returns the functions of Terraform that the module calls.
func functions() map[string]function.Function {
	text := func(do func(args []cty.Value) (cty.Value, error), params ...function.Parameter) function.Function {
		return function.New(&function.Spec{
			Params: params, Type: function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return do(args) },
		})
	}
	name := function.Parameter{Name: "path", Type: cty.String}
	return map[string]function.Function{
		"alltrue": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}}, Type: function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				return cty.BoolVal(!slices.ContainsFunc(args[0].AsValueSlice(), cty.Value.False)), nil
			},
		}),
		"file": text(func(args []cty.Value) (cty.Value, error) {
			content, err := os.ReadFile(args[0].AsString())
			return cty.StringVal(string(content)), err
		}, name),
		"templatefile": text(func(args []cty.Value) (cty.Value, error) {
			return templateFile(args[0].AsString(), args[1].AsValueMap())
		}, name, function.Parameter{Name: "vars", Type: cty.DynamicPseudoType}),
		"one": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
			Type:   function.StaticReturnType(cty.DynamicPseudoType),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if args[0].LengthInt() == 0 {
					return cty.NullVal(cty.String), nil
				}
				return args[0].AsValueSlice()[0], nil
			},
		}),
		"can":      tryfunc.CanFunc,
		"toset":    stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"coalesce": stdlib.CoalesceFunc, "contains": stdlib.ContainsFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "length": stdlib.StrlenFunc,
		"merge": stdlib.MergeFunc, "regex": stdlib.RegexFunc, "replace": stdlib.ReplaceFunc, "setunion": stdlib.SetUnionFunc, "sort": stdlib.SortFunc,
		"split": stdlib.SplitFunc, "values": stdlib.ValuesFunc,
	}
}

// templateFile evaluates a file as an HCL template, as Terraform does.
func templateFile(file string, values map[string]cty.Value) (cty.Value, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return cty.NilVal, err
	}
	template, diags := hclsyntax.ParseTemplate(content, file, hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	value, diags := template.Value(&hcl.EvalContext{Variables: values})
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	return value, nil
}
