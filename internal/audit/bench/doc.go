// Package bench measures the audit: whole programs against a peer on the same
// input, and a live cluster that a fake API server plays. make bench runs it.
package bench
