// Package kube models an API server of Kubernetes and the controllers of a cluster for tests in virtual time. It
// serves client-go without sockets, so that everything runs in one bubble of testing/synctest. A seed decides
// everything that is left to chance.
//
// A Server is created with New, and the controllers are started with its Run. Each client has a Transport with its
// name, so that one of two agents can be cut off alone. Audit gets a Record of each answer, and OnChange each change
// of an object with the actor that made it; both are called at the moment of the decision, and must not call the
// server. Create, Update, Remove, Get, List, PodsOn and DeletePod are what an operator does.
//
// # What is modeled
//
// The API server: resource versions; lists with selectors, pages, and of resource version 0; watches with selectors,
// initial events, bookmarks, timeouts, resource versions that have expired; creation, update, status, merge and
// strategic merge patches, optimistic locking, dry runs, UID and resource version preconditions; graceful deletion of
// pods, whose grace period a second deletion can shorten; evictions within one budget, refused by two, of pods that
// are not healthy, ended, pending or deleted; finalizers of pods; webhooks on evictions and deletions that allow or
// refuse them, with any code and reason, after any time or never, and both failure policies; the end of requests after
// a minute. Encodings are protobuf and JSON.
//
// The controllers, each as slow as Timing says: Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs
// (backoffLimit, the podFailurePolicy that ignores disrupted pods), and owners that behave like DaemonSets and have
// another kind; volumes that are attached to the nodes of their pods, and detached later; the scheduler, with a view of
// nodes and pods that is SchedulerLag old (taints, node selectors, required node affinity, unschedulable nodes,
// allocatable pods, fewest pods first, rather not PreferNoSchedule); kubelets (pods start, become Ready, work after
// SIGTERM as long as WorkAnnotation says and are killed at the end of their grace period); node lifecycle (a node
// without a kubelet is unreachable after NodeLost, taints follow); eviction for NoExecute taints after
// tolerationSeconds; the disruption controller; and the garbage collection of pods without a Node. StopKubelet,
// StartKubelet, HangRuntime and Restart are what happens to machines.
//
// Faults, for all clients or some, are those of Effect, and BreakWatches and Expire.
//
// # What is not modeled
//
// Authentication, admission except for webhooks and default tolerations, validation, versions, server-side apply,
// finalizers of other objects, owners' garbage collection, strategies of Deployments other than one pod more,
// preemption, pod affinity and topology spread, resources other than the number of pods, that only one node can have a
// volume, heartbeats of kubelets, a kubelet that hangs while its containers run on, the update to a grace period of
// zero by which a kubelet removes a pod, Events of controllers. Pages of a list are of the latest version, not of that
// of the first page.
package kube
