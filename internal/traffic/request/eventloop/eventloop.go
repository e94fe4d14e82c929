// Package eventloop sends HTTP/1.1 requests without TLS to one address from
// raw sockets and one epoll loop: new connections or kept ones, at the speed of the machine and on time.
//
// It must not know names, TLS or other protocols: package client sends those.
package eventloop

import "github.com/drainproof/drainproof/internal/traffic/request"

// Can reports whether this engine can send p on this system.
func Can(p request.Plan) bool {
	_, isAddress := p.Target.Address()
	return supported && p.Target.Scheme == "http" && isAddress && (p.Mode == request.NewConnection || p.Mode == request.KeepAlive)
}
