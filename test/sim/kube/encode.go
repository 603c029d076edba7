package kube

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// Each version of an object is encoded once for each format. Lists and watches are put together from that.

// protobuf returns the object in protobuf, without an envelope.
func (e *entry) protobuf() ([]byte, error) {
	if e.proto == nil {
		data, err := marshal(e.Object)
		if err != nil {
			return nil, err
		}
		e.proto = data
	}
	return e.proto, nil
}

// document returns the object in JSON.
func (e *entry) document() ([]byte, error) {
	if e.json == nil {
		data, err := runtime.Encode(jsonEncoder(e.kind.kind.GroupVersion()), e.Object)
		if err != nil {
			return nil, err
		}
		e.json = data
	}
	return e.json, nil
}

func jsonEncoder(version schema.GroupVersion) runtime.Encoder {
	return scheme.Codecs.EncoderForVersion(
		kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, kjson.SerializerOptions{}),
		version)
}

// envelope wraps an object in protobuf, as runtime.Unknown does. Source: the protobuf serializer of apimachinery.
func envelope(kind schema.GroupVersionKind, object []byte) []byte {
	meta := protoField(protoField(nil, 1, []byte(kind.GroupVersion().String())), 2, []byte(kind.Kind))
	return protoField(protoField(append(make([]byte, 0, len(object)+len(meta)+32), "k8s\x00"...), 1, meta), 2, object)
}

// protoField appends a field with a length to a message in protobuf.
func protoField(to []byte, number byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(to, number<<3|2), uint64(len(value))), value...)
}

// encode returns an answer that is not a stored object.
func (c *call) encode(o runtime.Object) ([]byte, error) {
	version := c.resource.kind.GroupVersion()
	if _, isStatus := o.(*metav1.Status); isStatus {
		version = schema.GroupVersion{Version: "v1"}
	}
	if !c.protobuf {
		return runtime.Encode(jsonEncoder(version), o)
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return nil, err
	}
	data, err := marshal(o)
	return envelope(version.WithKind(kinds[0].Kind), data), err
}

func marshal(o runtime.Object) ([]byte, error) {
	m, ok := o.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf", o)
	}
	return m.Marshal()
}

// encodeEntry returns a stored object.
func (c *call) encodeEntry(e *entry) ([]byte, error) {
	if !c.protobuf {
		return e.document()
	}
	data, err := e.protobuf()
	return envelope(e.kind.kind, data), err
}

// encodeList returns a list of stored objects.
func (c *call) encodeList(meta metav1.ListMeta, items []*entry) ([]byte, error) {
	kind := c.resource.kind
	kind.Kind += "List"
	if !c.protobuf {
		return jsonList(kind, meta, items)
	}
	head, err := meta.Marshal()
	if err != nil {
		return nil, err
	}
	out := protoField(nil, 1, head)
	for _, e := range items {
		data, err := e.protobuf()
		if err != nil {
			return nil, err
		}
		out = protoField(out, 2, data)
	}
	return envelope(kind, out), nil
}

func jsonList(kind schema.GroupVersionKind, meta metav1.ListMeta, items []*entry) ([]byte, error) {
	list := &metav1.List{
		TypeMeta: metav1.TypeMeta{Kind: kind.Kind, APIVersion: kind.GroupVersion().String()},
		ListMeta: meta, Items: make([]runtime.RawExtension, 0, len(items)),
	}
	for _, e := range items {
		data, err := e.document()
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, runtime.RawExtension{Raw: data})
	}
	return json.Marshal(list)
}

// frame returns an event of a watch, as it is sent.
func (c *call) frame(event watch.EventType, e *entry) ([]byte, error) {
	data, err := c.encodeEntry(e)
	if err != nil {
		return nil, err
	}
	return c.frameOf(event, data)
}

// frameOf returns an event with an encoded object.
func (c *call) frameOf(event watch.EventType, data []byte) ([]byte, error) {
	out := &metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Raw: data}}
	if !c.protobuf {
		return json.Marshal(out)
	}
	data, err := out.Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, len(data)+4), uint32(len(data))), data...), nil
}
