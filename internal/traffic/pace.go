package traffic

// pace is the schedule of all heartbeats of a plan: flow i of n is due at
// start + i*heartbeat/n and every heartbeat after it. The slots of all flows in
// the order of time are therefore a ring, and the schedule needs neither a heap nor a timer per flow.
type pace struct {
	startNs, heartbeatNs int64
	n                    int64
}

// flow is whose slot it is.
func (p pace) flow(slot int64) int { return int(slot % p.n) }

// at is when a slot is due, on the clock of startNs.
func (p pace) at(slot int64) int64 {
	return p.startNs + slot/p.n*p.heartbeatNs + slot%p.n*p.heartbeatNs/p.n
}

// stale tells whether a slot is so late at now that its flow's next one is
// due as well: sending both would be a burst that no schedule asked for.
func (p pace) stale(slot, now int64) bool { return now-p.at(slot) >= p.heartbeatNs }

// beginning is which flow is opened as the k-th. A crowd is opened in strides
// over the ring, so that those open so far are spread over the heartbeat too; few flows are opened as they are listed.
func (p pace) beginning(k int) int {
	if p.n <= crowd {
		return k
	}
	// The golden section spreads any number of points evenly; without a common divisor the stride visits all.
	stride := p.n * 618 / 1000
	for gcd(stride, p.n) != 1 {
		stride++
	}
	return int(int64(k) * stride % p.n)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// crowd is how many flows make single steps too dear.
const crowd = 1000
