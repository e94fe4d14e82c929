//go:build !linux

package agent

// costNow is not told here.
func costNow() Cost { return Cost{} }

const firstPIDNs = 0

func ownNs(string) uint32 { return 1 }
