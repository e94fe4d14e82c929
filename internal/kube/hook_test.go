package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func hooked(name string, h *corev1.LifecycleHandler) corev1.Container {
	c := corev1.Container{Name: name}
	if h != nil {
		c.Lifecycle = &corev1.Lifecycle{PreStop: h}
	}
	return c
}

func command(words ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}
}

func TestReadHook(t *testing.T) {
	get := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/drain?token=secret", Port: intstr.FromString("http"), Scheme: "HTTPS"}}
	tests := []struct {
		hook  *corev1.LifecycleHandler
		how   string
		took  time.Duration
		known bool
	}{
		{&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}, "sleep 5s", 5 * time.Second, true},
		{command("sleep", "5"), "sleep 5s", 5 * time.Second, true},
		{command("/bin/sleep", "0.5"), "sleep 500ms", 500 * time.Millisecond, true},
		{command("sh", "-c", "sleep 15s"), "sleep 15s", 15 * time.Second, true},
		{command("/bin/bash", "-c", " /usr/bin/sleep  2m "), "sleep 2m0s", 2 * time.Minute, true},
		{command("sh", "-c", "sleep 5 && kill 1"), "exec sh", 0, false},
		{command("sh", "-c", "sleep $N"), "exec sh", 0, false},
		{command("sh", "-c", "sleep"), "exec sh", 0, false},
		{command("sleep", "-5"), "exec sleep", 0, false},
		{command("sleep", "infinity"), "exec sleep", 0, false},
		{command("sleep", "NaN"), "exec sleep", 0, false},
		{command("sleep", "1", "2"), "exec sleep", 0, false},
		{command("/bin/drain", "--password", "secret"), "exec /bin/drain", 0, false},
		{get, "HTTPS GET :http/drain", 0, false},
		{&corev1.LifecycleHandler{}, "unknown", 0, false},
	}
	for _, tt := range tests {
		how, took, known := readHook(tt.hook)
		if how != tt.how || took != tt.took || known != tt.known {
			t.Errorf("%q, %v, %v; want %q, %v, %v", how, took, known, tt.how, tt.took, tt.known)
		}
	}
}

func TestHooksOfAPod(t *testing.T) {
	five := &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}
	sidecar := hooked("proxy", command("sleep", "9"))
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	tests := []struct {
		name string
		spec corev1.PodSpec
		how  string
		took *int64
	}{
		{"none", corev1.PodSpec{Containers: []corev1.Container{hooked("web", nil)}}, "", new(int64(0))},
		{"the longest counts, an init container's does not", corev1.PodSpec{
			InitContainers: []corev1.Container{hooked("init", command("sleep", "60")), sidecar},
			Containers:     []corev1.Container{hooked("web", five)},
		}, "proxy: sleep 9s; web: sleep 5s", new(int64(9 * time.Second))},
		{"one that does not say", corev1.PodSpec{Containers: []corev1.Container{hooked("web", five), hooked("b", command("drain"))}}, "web: sleep 5s; b: exec drain", nil},
	}
	for _, tt := range tests {
		how, took := preStops(tt.spec)
		if how != tt.how || (took == nil) != (tt.took == nil) || took != nil && *took != *tt.took {
			t.Errorf("%s: %q, %v", tt.name, how, took)
		}
	}
}
