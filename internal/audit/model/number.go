package model

import "math"

// Resolve turns a percentage into a count of the given whole, as the API does: up
// or down to a whole number. A plain number stands as it is.
func (v IntOrPercent) Resolve(of int64, roundUp bool) int64 {
	if !v.Percent {
		return v.N
	}
	// The API's fields have 32 bits; with that bound the product fits.
	product := bounded(v.N) * bounded(of)
	whole, rest := product/100, product%100
	switch {
	case rest > 0 && roundUp:
		whole++
	case rest < 0 && !roundUp:
		whole--
	}
	return whole
}

func bounded(n int64) int64 { return min(max(n, math.MinInt32), math.MaxInt32) }

// RollingUpdate gives how many Pods more than replicas, and how many fewer, a rolling
// update may have, rounded as the workload's controller rounds. Both are 0 for the
// strategies that do not roll. For a DaemonSet replicas is the number of its nodes.
func (w *Workload) RollingUpdate(replicas int64) (surge, unavailable int64) {
	switch {
	case w.Strategy != "RollingUpdate" && w.Strategy != "Canary":
		return 0, 0
	case w.Object.Kind == "StatefulSet":
		return 0, max(1, w.MaxUnavailable.Resolve(replicas, false))
	}
	// Only a DaemonSet rounds what may be missing up.
	surge = w.MaxSurge.Resolve(replicas, true)
	unavailable = w.MaxUnavailable.Resolve(replicas, w.Object.Kind == "DaemonSet")
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}
