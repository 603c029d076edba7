// Package loop is what all rollouts of a group do, whichever their mode is: the group is described, a step decides on
// what is known of it and acts, and again, until nothing is left to do. It keeps what is known of the group, and shows
// how far that is.
package loop
