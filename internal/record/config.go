package record

// Arms lists what the probe may do on SIGTERM. A test of a user's own workload has none.
func Arms() []string { return []string{"exit", "drain", "ignore", "finish"} }

// TriggerKinds lists every way to end a workload.
func TriggerKinds() []string {
	return []string{"delete", "evict", "scale", "rollout", "drain", "kill", "force-delete", "none"}
}

// Paths lists how clients reach the probe, Vantages where they stand, and ReadinessOnTerms what its readiness does on SIGTERM.
func Paths() []string            { return []string{"pod", "clusterip", "nodeport"} }
func Vantages() []string         { return []string{"host", "pod"} }
func ReadinessOnTerms() []string { return []string{"fail", "keep"} }

// Modes lists how requests are sent, the default first.
func Modes() []string {
	return []string{"new-connection", "keep-alive", "http2", "grpc", "grpc-stream", "websocket", "tcp", "udp"}
}

// WorkloadKinds lists what can be ended under traffic.
func WorkloadKinds() []string { return []string{"Deployment", "StatefulSet", "DaemonSet", "Pod"} }

// Strategies lists how a workload replaces its Pods; "" is a bare Pod's.
func Strategies() []string { return []string{"", "RollingUpdate", "Recreate", "OnDelete"} }
