// Package refresh says which instances of Auto Scaling groups are outdated and why, checks whether they can
// be replaced without harm, has them replaced, and tells how far that is. The types of Auto Scaling and EC2
// stop here: what it takes and gives is plain data.
//
// It reads, decides and changes, each apart from the others. A Reader asks AWS and can change nothing (the
// files reader*.go). Templates.Resolve, Outdated, Preflight and Next decide, on plain data alone. A Writer
// changes (writer*.go); what has none can change nothing.
package refresh
