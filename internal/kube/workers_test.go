package kube

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestWorkersAreAnIndexedJob(t *testing.T) {
	s := WorkerSpec{Namespace: "ns", Trial: "t1", Image: "i", Args: []string{"worker", "--idle=1h"}, AwayFrom: "n1"}
	j := workerJob(s, 3)
	p := j.Spec.Template
	if *j.Spec.Completions != 3 || *j.Spec.Parallelism != 3 || *j.Spec.CompletionMode != batchv1.IndexedCompletion || *j.Spec.BackoffLimit != 0 || *j.Spec.TTLSecondsAfterFinished == 0 {
		t.Errorf("job %+v", j.Spec)
	}
	if j.Labels[LabelManaged] != "t1" || p.Labels[LabelManaged] != "t1" || p.Labels[LabelApp] != NameWorker || p.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("labels %v and %v, restart policy %s", j.Labels, p.Labels, p.Spec.RestartPolicy)
	}
	if c := p.Spec.TopologySpreadConstraints; len(c) != 1 || c[0].WhenUnsatisfiable != corev1.ScheduleAnyway || c[0].LabelSelector.MatchLabels[LabelApp] != NameWorker {
		t.Errorf("spread %+v", c)
	}
	if p.Spec.Affinity.NodeAffinity == nil || !*p.Spec.SecurityContext.RunAsNonRoot {
		t.Errorf("pod %+v", p.Spec)
	}
}

// worker is what the Job's controller would have made.
func worker(uid, index string, opts ...func(*corev1.Pod)) *corev1.Pod {
	p := pod(uid, append(opts, onNode)...)
	p.Name, p.Labels = "worker-"+uid, labelsOf("t1", NameWorker)
	p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: index}
	return p
}

func TestDeployWorkersWaitsForAllOfThem(t *testing.T) {
	s := WorkerSpec{Namespace: "ns", Trial: "t1", Image: "i"}
	refs, err := with(worker("a", "10", ready("True")), worker("b", "9", ready("True"))).DeployWorkers(t.Context(), s, 2, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(refs) != 2 || refs[0].Name != "worker-b" || refs[1].Name != "worker-a" {
		t.Errorf("refs %+v, want them in the order of their index", refs)
	}
	_, err = with(worker("a", "0", ready("True")), worker("b", "1", ready("False"))).DeployWorkers(t.Context(), s, 2, 300*time.Millisecond)
	if fault.CodeOf(err) != fault.Unmeasurable || err == nil || !strings.Contains(err.Error(), "worker-b") {
		t.Errorf("one is not ready: %v", err)
	}
	_, err = with(worker("a", "0", waitingFor("ErrImagePull", "not found"))).DeployWorkers(t.Context(), s, 1, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "ErrImagePull") {
		t.Errorf("an image that is not there: %v", err)
	}
	if _, err := with().DeployWorkers(t.Context(), s, 0, time.Minute); fault.CodeOf(err) != fault.Usage {
		t.Errorf("no workers: %v", err)
	}
}

func TestKillerIsOnItsNodeWithAllRights(t *testing.T) {
	k := killerPod("ns", "t1", "i", "n1").Spec
	if k.NodeName != "n1" || !k.HostPID || !*k.Containers[0].SecurityContext.Privileged || *k.SecurityContext.RunAsUser != 0 || k.SecurityContext.RunAsNonRoot != nil {
		t.Errorf("pod %+v", k)
	}
	if len(k.Tolerations) != 1 || k.Tolerations[0].Operator != corev1.TolerationOpExists || k.Affinity != nil || *k.AutomountServiceAccountToken {
		t.Errorf("pod %+v", k)
	}
}

func TestDeployKillerMakesItsNamespaceAdmitIt(t *testing.T) {
	tests := []struct {
		name string
		ns   *corev1.Namespace
		want string
	}{
		{"none yet", nil, "privileged"},
		{"the trial's own", ownNamespace("ns", "t1"), "privileged"},
		{"somebody's", ownNamespace("ns", "t0"), "restricted"},
	}
	for _, tt := range tests {
		c := with()
		if tt.ns != nil {
			c = with(tt.ns)
		}
		// Nothing runs the Pod: what counts is what was made before the wait.
		if _, err := c.DeployKiller(t.Context(), "ns", "t1", "i", "n1", time.Millisecond); fault.CodeOf(err) != fault.Unmeasurable {
			t.Errorf("%s: %v", tt.name, err)
		}
		ns, err := c.client.CoreV1().Namespaces().Get(t.Context(), "ns", metav1.GetOptions{})
		if err != nil || ns.Labels[labelEnforce] != tt.want || ns.Labels[LabelManaged] == "" {
			t.Errorf("%s: labels %v, %v", tt.name, ns.Labels, err)
		}
		if _, err := c.client.CoreV1().Pods("ns").Get(t.Context(), NameKiller, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
