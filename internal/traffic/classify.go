package traffic

import "github.com/drainproof/drainproof/internal/record"

// classify judges by these rules, in this order. A flow that was announced is
// drained whatever carried its end (FIN, or a reset that followed the bye): the
// conversation was complete, and the mechanism still says how the socket went.
func classify(p record.Protocol, e RawEnd) (record.Outcome, record.Mechanism) {
	switch e.Kind {
	case EndEOF:
		return eof(e)
	case EndReadError, EndWriteError:
		m, known := carrier(p, e)
		switch {
		case !known:
			// Such as EPROTO: the client cannot follow what the peer says, and an errno without a place is no proof of a cut.
			return record.NotMeasured, record.ClientLimit
		case e.Announced && (m == record.RST || m == record.BrokenPipe):
			return record.Drained, m
		default:
			return record.Severed, m
		}
	case EndNoAnswer:
		if p == record.UDP {
			// Nothing stands that could be silent: for datagrams silence is the cut.
			return record.Severed, record.Silence
		}
		return record.ReadTimeout, record.Silence
	case EndOtherInstance:
		return record.Rehomed, record.OtherInstance
	case EndWindowClosed:
		return record.Survived, record.None
	case EndNotOpened:
		return record.NotMeasured, whyNotOpened(p, e)
	default:
		// EndClientLimit, EndClientLost, and words of a newer worker.
		return record.NotMeasured, record.ClientLimit
	}
}

func eof(e RawEnd) (record.Outcome, record.Mechanism) {
	switch {
	case e.PartialBytes > 0:
		return record.Severed, record.FINMidMessage
	case e.Announced:
		return record.Drained, record.AnnouncedFIN
	case e.Promised:
		return record.Severed, record.FINMidMessage
	default:
		return record.Closed, record.FIN
	}
}

// carrier is what carried an error to the socket; known is false for errors that prove no cut by the peer or the path.
func carrier(p record.Protocol, e RawEnd) (m record.Mechanism, known bool) {
	if e.ICMP != nil {
		return icmp(*e.ICMP)
	}
	switch e.Errno {
	case "ECONNRESET", "ECONNABORTED", "ENETRESET":
		return record.RST, true
	case "EPIPE":
		return record.BrokenPipe, true
	case "ECONNREFUSED":
		if p == record.UDP {
			return record.ICMPPort, true
		}
		return record.RST, true
	case "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN":
		return record.ICMPHost, true
	case "ETIMEDOUT":
		return record.Silence, true
	default:
		return record.None, false
	}
}

// icmp reads types and codes of RFC 792 with RFC 1122 and 1812 (type 3) and of RFC 4443 (type 1, which IPv4 does not use).
func icmp(m record.ICMP) (record.Mechanism, bool) {
	const v4, v6 = 3, 1
	switch {
	case m.Type == v4 && m.Code == 3, m.Type == v6 && m.Code == 4:
		return record.ICMPPort, true
	// Network, host, source route, unknown, isolated, prohibited, by type of service, by filter, by precedence.
	case m.Type == v4 && (m.Code <= 1 || m.Code >= 5 && m.Code <= 15):
		return record.ICMPHost, true
	case m.Type == v6 && m.Code != 4:
		return record.ICMPHost, true
	default:
		return record.None, false
	}
}

func whyNotOpened(p record.Protocol, e RawEnd) record.Mechanism {
	if m, known := carrier(p, e); known {
		return m
	}
	switch e.Errno {
	case "":
		return record.FIN
	case "ECANCELED":
		return record.WindowClosed
	default:
		return record.ClientLimit
	}
}
