// Package redisserver runs groups of real Redis servers and sentinels: processes of redis-server, each at its own
// address 127.a.b.c, as pods have their own, with a folder as its volume. Linux alone routes all of 127.0.0.0/8 to the
// loopback. It does not use package testing: what fails returns an error.
package redisserver
