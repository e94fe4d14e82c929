package record

// Agent is what one node's agent could see during the trial, and what it could not.
type Agent struct {
	Node    string `json:"node"`
	Version string `json:"version"`
	// Sights say for each kind of evidence whether it was watched, by which means, or what was missing.
	Sights []Sight `json:"sights"`
	// Lost counts by kind what the node's kernel saw and could not hand over; empty for nothing, and where Ended says that it was not heard to the end.
	Lost map[string]uint64 `json:"lost"`
	// CPUNs and RSSBytes are what the agent's process took of its node; null where it was not heard to the end.
	CPUNs    *int64 `json:"cpu_ns"`
	RSSBytes *int64 `json:"rss_bytes"`
	// Ended says why it ended before the trial did, or was never there; empty when it did not.
	Ended string `json:"ended"`
}

// Sight is one kind of evidence on one node.
type Sight struct {
	Name string `json:"name"`
	Seen bool   `json:"seen"`
	How  string `json:"how"`
	Why  string `json:"why"`
}
