// Package bench measures the node agent, the program itself, on a node of its own: network namespaces of a node, a Pod and a client, joined by
// veths, with a Service's address that the node's rules translate. It holds only benchmarks (make bench), for Linux and root.
//
// It must not be imported.
package bench
