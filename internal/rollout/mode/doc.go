// Package mode has the ways in which the instances of a group are replaced: by an Instance Refresh, by an update of a
// managed node group, by marking instances unhealthy, or by way of Standby.
package mode
