package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	ctyjson "github.com/zclconf/go-cty/cty/json"
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
// uses, with HCL's own expressions and functions, and without providers: compute adds what they would
// compute.
type plan struct {
	t         *testing.T
	module    module
	scope     map[string]map[string]cty.Value            // what expressions see: var, local, each type of resource
	instances map[string]map[string]map[string]cty.Value // by type.name, then by the key of for_each or count
}

// errRefused is the error of a validation or precondition that fails.
var errRefused = errors.New("the module refuses the inputs")

// evaluate plans the module. It returns an error if the module refuses the inputs. Errors in the module fail
// the test.
func (m module) evaluate(t *testing.T, inputs map[string]any) (*plan, error) {
	t.Helper()
	one := func(attribute, value string) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"this": cty.ObjectVal(map[string]cty.Value{attribute: cty.StringVal(value)})})
	}
	p := &plan{t: t, module: m, instances: map[string]map[string]map[string]cty.Value{}, scope: map[string]map[string]cty.Value{
		"var": {}, "local": {}, "output": {},
		"path": {"module": cty.StringVal(m.dir)},
		"data": {
			"aws_caller_identity": one("account_id", "123456789012"), "aws_partition": one("partition", "aws"),
			"aws_region": one("id", "eu-central-1"),
		},
	}}
	if err := p.readVariables(inputs); err != nil {
		return nil, err
	}
	pending := p.work()
	for len(pending) > 0 {
		var all hcl.Diagnostics
		rest := slices.DeleteFunc(slices.Clone(pending), func(do func() hcl.Diagnostics) bool {
			diags := do()
			all = append(all, diags...)
			return !diags.HasErrors()
		})
		if len(rest) == len(pending) {
			t.Fatal(all)
		}
		pending = rest
	}
	return p, p.preconditions()
}

// warnings returns the messages of the checks that fail, if groups with these names have the tag.
func (p *plan) warnings(tagged ...string) (messages []string) {
	p.t.Helper()
	names := []cty.Value{cty.StringVal("a group of others")}
	for _, name := range tagged {
		names = append(names, cty.StringVal(name))
	}
	p.scope["data"]["aws_autoscaling_groups"] = cty.ObjectVal(map[string]cty.Value{
		"tagged": cty.ObjectVal(map[string]cty.Value{"names": cty.ListVal(names)}),
	})
	for _, b := range p.module.all("check") {
		if err := p.checkConditions(b.Body, "assert"); err != nil {
			messages = append(messages, err.Error())
		}
	}
	return messages
}

// planOf plans the module with inputs that it takes.
func planOf(t *testing.T, inputs map[string]any) *plan {
	t.Helper()
	p, err := loadModule(t, "terraform").evaluate(t, inputs)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *plan) readVariables(inputs map[string]any) error {
	p.t.Helper()
	for _, b := range p.module.all("variable") {
		name, attrs := b.Labels[0], b.Body.Attributes
		kind, diags := typeexpr.TypeConstraint(attrs["type"].Expr)
		if diags.HasErrors() {
			p.t.Fatal(diags)
		}
		input, given := inputs[name]
		if !given && attrs["default"] == nil {
			p.t.Fatalf("the input %s is missing", name)
		}
		text, err := json.Marshal(input)
		var value cty.Value
		switch {
		case err != nil:
		case given:
			value, err = ctyjson.Unmarshal(text, kind)
		default:
			value, err = convert.Convert(p.must(attrs["default"].Expr), kind)
		}
		if err != nil {
			p.t.Fatalf("variable %s: %v", name, err)
		}
		p.scope["var"][name] = value
	}
	for name := range inputs {
		if _, ok := p.scope["var"][name]; !ok {
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
		if check.Type == kind && p.must(check.Body.Attributes["condition"].Expr).False() {
			return fmt.Errorf("%w: %s", errRefused, p.must(check.Body.Attributes["error_message"].Expr).AsString())
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

// work returns what evaluates the locals, resources and outputs. Each fails until all that it refers to is evaluated.
func (p *plan) work() (all []func() hcl.Diagnostics) {
	set := func(kind, name string, expr hcl.Expression) {
		all = append(all, func() (diags hcl.Diagnostics) {
			p.scope[kind][name], diags = p.value(expr, nil)
			if diags.HasErrors() {
				delete(p.scope[kind], name)
			}
			return diags
		})
	}
	for _, b := range p.module.all("locals") {
		for name, a := range b.Body.Attributes {
			set("local", name, a.Expr)
		}
	}
	for _, b := range p.module.all("resource") {
		all = append(all, func() hcl.Diagnostics { return p.resource(b) })
	}
	for _, b := range p.module.all("output") {
		set("output", b.Labels[0], b.Body.Attributes["value"].Expr)
	}
	return all
}

// resource evaluates all instances of a resource.
func (p *plan) resource(b *hclsyntax.Block) (diags hcl.Diagnostics) {
	kind, name, attrs := b.Labels[0], b.Labels[1], b.Body.Attributes
	value := func(expr hcl.Expression, each map[string]cty.Value) cty.Value {
		v, problems := p.value(expr, each)
		diags = append(diags, problems...)
		return v
	}
	instances := map[string]map[string]cty.Value{}
	one := func(key string, each map[string]cty.Value) cty.Value {
		instances[key] = map[string]cty.Value{}
		for name, a := range attrs {
			if !slices.Contains([]string{"for_each", "count", "depends_on"}, name) {
				instances[key][name] = value(a.Expr, each)
			}
		}
		if !diags.HasErrors() {
			compute(kind, instances[key])
		}
		return cty.ObjectVal(instances[key])
	}
	var shape cty.Value
	switch {
	case attrs["for_each"] != nil:
		all, shapes := value(attrs["for_each"].Expr, nil), map[string]cty.Value{}
		if diags.HasErrors() {
			return diags
		}
		for k, v := range all.Elements() {
			each := cty.ObjectVal(map[string]cty.Value{"key": k, "value": v})
			shapes[k.AsString()] = one(k.AsString(), map[string]cty.Value{"each": each})
		}
		shape = cty.ObjectVal(shapes)
	case attrs["count"] != nil:
		count, shapes := value(attrs["count"].Expr, nil), []cty.Value{}
		if diags.HasErrors() {
			return diags
		}
		n, _ := count.AsBigFloat().Int64()
		for i := range n {
			shapes = append(shapes, one(fmt.Sprint(i), nil))
		}
		shape = cty.TupleVal(shapes)
	default:
		shape = one("", nil)
	}
	if diags.HasErrors() {
		return diags
	}
	if p.scope[kind] == nil {
		p.scope[kind] = map[string]cty.Value{}
	}
	p.scope[kind][name], p.instances[kind+"."+name] = shape, instances
	return nil
}

// compute adds the attributes that the provider computes.
func compute(kind string, instance map[string]cty.Value) {
	switch kind {
	case "aws_sqs_queue":
		name := instance["name"].AsString()
		instance["arn"], instance["url"], instance["id"] = cty.StringVal(queueARN(name)), cty.StringVal(queueURL(name)), cty.StringVal(queueURL(name))
	case "aws_iam_role":
		instance["arn"] = cty.StringVal(roleARN(instance["name"].AsString()))
	}
}

func queueARN(name string) string { return "arn:aws:sqs:eu-central-1:123456789012:" + name }
func queueURL(name string) string {
	return "https://sqs.eu-central-1.amazonaws.com/123456789012/" + name
}
func roleARN(name string) string { return "arn:aws:iam::123456789012:role/" + name }

// value evaluates an expression with the values known so far.
func (p *plan) value(expr hcl.Expression, more map[string]cty.Value) (cty.Value, hcl.Diagnostics) {
	variables := maps.Clone(more)
	if variables == nil {
		variables = map[string]cty.Value{}
	}
	for name, values := range p.scope {
		variables[name] = cty.ObjectVal(values)
	}
	return expr.Value(&hcl.EvalContext{Variables: variables, Functions: functions()})
}

// must evaluates an expression to which nothing is missing.
func (p *plan) must(expr hcl.Expression) cty.Value {
	p.t.Helper()
	value, diags := p.value(expr, nil)
	if diags.HasErrors() {
		p.t.Fatal(diags)
	}
	return value
}

// functions returns the functions of Terraform that the module calls.
func functions() map[string]function.Function {
	own := func(do func(args []cty.Value) (cty.Value, error), types ...cty.Type) function.Function {
		var params []function.Parameter
		for _, kind := range types {
			params = append(params, function.Parameter{Name: "argument", Type: kind})
		}
		return function.New(&function.Spec{
			Params: params, Type: function.StaticReturnType(cty.DynamicPseudoType),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return do(args) },
		})
	}
	return map[string]function.Function{
		"alltrue": own(func(args []cty.Value) (cty.Value, error) {
			return cty.BoolVal(!slices.ContainsFunc(args[0].AsValueSlice(), cty.Value.False)), nil
		}, cty.List(cty.Bool)),
		"file": own(func(args []cty.Value) (cty.Value, error) {
			content, err := os.ReadFile(args[0].AsString())
			return cty.StringVal(string(content)), err
		}, cty.String),
		"templatefile": own(func(args []cty.Value) (cty.Value, error) {
			return templateFile(args[0].AsString(), args[1].AsValueMap())
		}, cty.String, cty.DynamicPseudoType),
		"one": own(func(args []cty.Value) (cty.Value, error) {
			if args[0].LengthInt() == 0 {
				return cty.NullVal(cty.String), nil
			}
			return args[0].AsValueSlice()[0], nil
		}, cty.DynamicPseudoType),
		"can":    tryfunc.CanFunc,
		"concat": stdlib.ConcatFunc, "join": stdlib.JoinFunc,
		"toset":    stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc, "contains": stdlib.ContainsFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
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
