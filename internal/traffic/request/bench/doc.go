// Package bench measures the request client against others: what a request
// costs its process, how exactly the schedule is kept, and what a million recorded requests take. Server,
// client and peers are processes of their own on loopback. It holds only benchmarks (make bench).
//
// It must not be imported.
package bench
