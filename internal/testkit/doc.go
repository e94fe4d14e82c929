// Package testkit is what tests of several packages share: goldens, and checks
// of what the machine that runs them can do.
//
// No program imports it, only tests do.
package testkit
