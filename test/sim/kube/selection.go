package kube

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection is what a list or a watch selects.
type selection struct {
	namespace string
	node      string // if it selects the pods of one node, which is the usual case
	labels    labels.Selector
	fields    fields.Selector
}

func (c *call) selector() (out selection, err error) {
	out.namespace = c.object.Namespace
	if out.labels, err = labels.Parse(c.query.Get("labelSelector")); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	if out.fields, err = fields.ParseSelector(c.query.Get("fieldSelector")); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	if c.resource.name == "pods" {
		out.node, _ = out.fields.RequiresExactMatch("spec.nodeName")
	}
	return out, nil
}

func (s selection) matches(o Object) bool {
	pod, isPod := o.(*corev1.Pod)
	if isPod && s.node != "" && pod.Spec.NodeName != s.node {
		return false
	}
	return (s.namespace == "" || o.GetNamespace() == s.namespace) &&
		(s.labels.Empty() || s.labels.Matches(labels.Set(o.GetLabels()))) &&
		(s.fields.Empty() || s.fields.Matches(fieldsOf(o)))
}

// fieldsOf returns the fields that a selector can name.
func fieldsOf(o Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, ok := o.(*corev1.Pod); ok {
		set["spec.nodeName"], set["status.phase"] = pod.Spec.NodeName, string(pod.Status.Phase)
	}
	return set
}
