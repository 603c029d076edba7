package handover

import (
	"strings"
	"testing"
)

func TestGate(t *testing.T) {
	t.Parallel()
	answer, err := Gate{}.Release(t.Context(), Request{})
	if err != nil || answer.Go || answer.Outcome != HandingOver || !strings.Contains(answer.Message, HandedOverAnnotation) {
		t.Errorf("without the annotation: %+v, %v", answer, err)
	}
	pod := Pod{Annotations: map[string]string{HandedOverAnnotation: ""}}
	if answer, err := (Gate{}).Release(t.Context(), Request{Pod: pod}); err != nil || !answer.Go || answer.Outcome != HandedOver {
		t.Errorf("with the annotation: %+v, %v", answer, err)
	}
}
