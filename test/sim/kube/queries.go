package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodsOn returns the pods that are bound to a node, by name. They are shared: do not change them.
func (s *Server) PodsOn(node string) []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.podsOn(node)
}

// ConfigMap returns one, or nil. It is shared: do not change it.
func (s *Server) ConfigMap(namespace, name string) *corev1.ConfigMap {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.get("configmaps", types.NamespacedName{Namespace: namespace, Name: name}); e != nil {
		return e.Object.(*corev1.ConfigMap) //nolint:forcetypeassert // The table has ConfigMaps.
	}
	return nil
}

// History returns all changes from the nth on.
func (s *Server) History(n int) []*Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history[n:len(s.history):len(s.history)]
}

// DeletePod deletes a pod with its own grace period, as an operator would with kubectl delete.
func (s *Server) DeletePod(namespace, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.get("pods", types.NamespacedName{Namespace: namespace, Name: name}); e != nil {
		_, err := s.delete(operator, e, metav1.DeleteOptions{})
		return err
	}
	return nil
}
