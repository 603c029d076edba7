// Package refresh decides how the instances of Auto Scaling groups are replaced: Templates.Resolve and
// Outdated say which of them are outdated and why, Preflight checks whether they can be replaced without
// harm, and Next says what to do next.
//
// It is pure: it reads nothing but its arguments, and calls nothing. Packages autoscaling and ec2 read its
// data types from AWS, and autoscaling carries out what is decided.
package refresh
