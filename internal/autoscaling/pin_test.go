package autoscaling

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// fill sets every exported field, and each list to one element, so that none has its zero value.
func fill(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // The SDK has no others.
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		panic("no value of " + v.Type().String())
	}
}

// TestPinKeepsThePolicy: the API replaces the whole mixed instances policy. Fields that a later SDK adds are kept too.
func TestPinKeepsThePolicy(t *testing.T) {
	t.Parallel()
	var policy types.MixedInstancesPolicy
	fill(reflect.ValueOf(&policy).Elem())
	described := policy
	source := toSource(&policy, nil, nil)
	target := source
	target.Template, target.Overrides = &refresh.Template{ID: "lt-9", Version: "9"}, []refresh.Override{{Template: &refresh.Template{ID: "lt-8", Version: "8"}}}
	got, err := pinnedPolicy(refresh.Group{Source: source}, target)
	must(t, err)
	unexported := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(described, *got, unexported, cmpopts.IgnoreTypes(&types.LaunchTemplateSpecification{})); diff != "" {
		t.Errorf("the policy is changed (-described +sent):\n%s", diff)
	}
	if *got.LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateId != "lt-9" ||
		*got.LaunchTemplate.Overrides[0].LaunchTemplateSpecification.LaunchTemplateId != "lt-8" {
		t.Errorf("the launch templates are %+v", got.LaunchTemplate)
	}
}
