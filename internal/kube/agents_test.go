package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drainproof/drainproof/internal/fault"
)

func agentOn(node string, opts ...func(*corev1.Pod)) *corev1.Pod {
	p := pod("agent-"+node, append(opts, func(p *corev1.Pod) {
		p.Namespace, p.Name, p.Labels = NamespaceAgents, "agent-"+node, map[string]string{labelAgent: "true"}
		p.Spec.NodeName = node
		p.Spec.Containers = []corev1.Container{{Name: nameAgent, Image: "i"}}
	})...)
	return p
}

func namedNode(name string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Labels = name, labels
	return n
}

func TestAgentsSayWhichNodeHasNone(t *testing.T) {
	c := with(
		namedNode("a", nil), namedNode("b", nil), namedNode("c", nil), namedNode("win", map[string]string{corev1.LabelOSStable: "windows"}),
		agentOn("a", ready("True")), agentOn("b", waitingFor("ErrImagePull", "not found")),
	)
	got, err := c.Agents(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v; want one for each Linux node", got, err)
	}
	if a := got[0]; a.Node != "a" || a.Pod != "agent-a" || a.Namespace != NamespaceAgents || a.Image != "i" || a.Missing != "" {
		t.Errorf("%+v", a)
	}
	if b := got[1]; !strings.Contains(b.Missing, "not ready") || !strings.Contains(b.Missing, "ErrImagePull") {
		t.Errorf("%+v", b)
	}
	if x := got[2]; x.Pod != "" || !strings.Contains(x.Missing, "no agent") {
		t.Errorf("%+v", x)
	}
	if got, err := with(namedNode("a", nil)).Agents(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("none installed: %+v, %v", got, err)
	}
}

func TestAgentsMayDoWhatTheyNeedAndHoldNoToken(t *testing.T) {
	s := agentSet("i").Spec.Template.Spec
	c := s.Containers[0]
	if !s.HostPID || !s.HostNetwork || !*c.SecurityContext.Privileged || !*c.SecurityContext.ReadOnlyRootFilesystem || *s.AutomountServiceAccountToken {
		t.Errorf("pod %+v", s)
	}
	if len(s.Tolerations) != 1 || s.Tolerations[0].Operator != corev1.TolerationOpExists || s.Tolerations[0].Key != "" {
		t.Errorf("tolerations %+v: a tainted node's failures have causes as well", s.Tolerations)
	}
	if c.Image != "i" || len(c.VolumeMounts) != 0 {
		t.Errorf("container %+v", c)
	}
}

func TestInstallAgentsLeavesAnothersNamespaceAlone(t *testing.T) {
	ns := &corev1.Namespace{}
	ns.Name = NamespaceAgents
	c := with(ns, namedNode("a", nil))
	if _, _, err := c.InstallAgents(t.Context(), "i", time.Second); fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "not drainproof's") {
		t.Errorf("install: %v", err)
	}
	if _, err := c.UninstallAgents(t.Context(), time.Second); fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "not drainproof's") {
		t.Errorf("uninstall: %v", err)
	}
}

func TestInstallAgentsIsSafeToRepeat(t *testing.T) {
	c := with(namedNode("a", nil), agentOn("a", ready("True")))
	for i, want := range []bool{true, false} {
		agents, changed, err := c.InstallAgents(t.Context(), "i", 5*time.Second)
		if err != nil || changed != want || len(agents) != 1 {
			t.Fatalf("call %d: %+v, changed %v, %v", i+1, agents, changed, err)
		}
	}
	// Another image: the Pod is still that of before, and the error says so.
	if _, changed, err := c.InstallAgents(t.Context(), "j", 300*time.Millisecond); !changed || err == nil || !strings.Contains(err.Error(), "that of before") {
		t.Errorf("another image: changed %v, %v", changed, err)
	}
	if was, err := c.UninstallAgents(t.Context(), 5*time.Second); err != nil || !was {
		t.Errorf("uninstall: %v, %v", was, err)
	}
	if was, err := c.UninstallAgents(t.Context(), 5*time.Second); err != nil || was {
		t.Errorf("uninstall again: %v, %v", was, err)
	}
}
