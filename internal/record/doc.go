// Package record is the product's memory: what one trial observed, in a form
// that can be written, read, validated and judged again years later.
//
// It holds the schema drainproof.dev/record/v1 (schema/record-v1.json): events,
// flows, requests, outcomes, windows, clocks and the state of every source. A fact that
// was not observed is null, never zero. Times are integer nanoseconds, counted
// from the trigger on one clock where the name ends in _t_ns or is t_ns.
//
// It must not know how a trial is run, how traffic is sent, Kubernetes'
// libraries or any other package of the project.
package record
