// Package bench measures the client against peers in processes of their own
// on loopback: what a held flow costs, and how soon a reset is recorded. It holds only benchmarks (make bench).
//
// It must not be imported.
package bench
