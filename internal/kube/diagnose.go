package kube

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// obstacle is why a Pod does not become ready. A closed list.
type obstacle string

const (
	noObstacle    obstacle = ""
	notCreated    obstacle = "not-created"   // quota, admission
	unschedulable obstacle = "unschedulable" // no node takes it
	noImage       obstacle = "no-image"      // the node has not got it and cannot get it
	badContainer  obstacle = "bad-container" // the runtime or the kubelet refuses to start it
	exited        obstacle = "exited"        // it ran, and ended
	podFailed     obstacle = "pod-failed"    // the kubelet refused or evicted the Pod
)

// diagnosis is an obstacle with what Kubernetes says about it.
type diagnosis struct {
	obstacle obstacle
	// subject is the object, such as pod probe-7d9.
	subject string
	// reason is Kubernetes' word, message its sentence.
	reason, message string
}

// patience is how long an obstacle must last before it ends the wait: those
// that can pass by themselves get a while.
func (d diagnosis) patience() time.Duration {
	switch d.obstacle {
	case unschedulable:
		return 10 * time.Second // a node may be joining, or an earlier trial's Pod leaving
	case podFailed:
		return 3 * time.Second
	default:
		return 0
	}
}

// waitingReasons maps the kubelet's reasons of a waiting container; those not
// named here (ContainerCreating, PodInitializing) are the normal course.
var waitingReasons = map[string]obstacle{
	"ErrImagePull":               noImage,
	"ImagePullBackOff":           noImage,
	"ErrImageNeverPull":          noImage,
	"InvalidImageName":           noImage,
	"ImageInspectError":          noImage,
	"RegistryUnavailable":        noImage,
	"SignatureValidationFailed":  noImage,
	"CreateContainerConfigError": badContainer,
	"CreateContainerError":       badContainer,
	"RunContainerError":          badContainer,
	"PostStartHookError":         badContainer,
	"CrashLoopBackOff":           exited,
}

// diagnosePod says what keeps a Pod from becoming ready, if its status shows it.
func diagnosePod(p *corev1.Pod) diagnosis {
	d := diagnosis{subject: "pod " + p.Name}
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			if o, ok := waitingReasons[w.Reason]; ok && o != exited {
				d.obstacle, d.reason, d.message = o, w.Reason, w.Message
				return d
			}
		}
		end := s.State.Terminated
		if end == nil {
			end = s.LastTerminationState.Terminated
		}
		if end != nil {
			d.obstacle, d.reason, d.message = exited, end.Reason, end.Message
			if end.Reason == "StartError" || end.Reason == "ContainerCannotRun" {
				d.obstacle = badContainer
				return d
			}
			d.message = fmt.Sprintf("exit code %d %s", end.ExitCode, end.Message)
			return d
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		d.obstacle, d.reason, d.message = podFailed, p.Status.Reason, p.Status.Message
		return d
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			d.obstacle, d.reason, d.message = unschedulable, c.Reason, c.Message
			return d
		}
	}
	return d
}

// diagnoseDeployment says why a Deployment has no Pods, if its status shows it:
// the ReplicaSet's controller was refused by a quota or an admission policy.
func diagnoseDeployment(dep *appsv1.Deployment) diagnosis {
	for _, c := range dep.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return diagnosis{obstacle: notCreated, subject: "deployment " + dep.Name, reason: c.Reason, message: c.Message}
		}
	}
	return diagnosis{}
}

// next is the advice for each obstacle.
func (d diagnosis) next(image string) string {
	switch d.obstacle {
	case notCreated:
		return "the message names the quota or the policy that refuses the Pod: relax it, or choose another --namespace"
	case unschedulable:
		return "free or add a node; the message says what each node lacks"
	case noImage:
		return "load the image " + image + " onto the nodes (`drainproof cluster load-image` for a local cluster; docs/clusters.md tells how on others) or push it to a registry that they reach (`drainproof image push`)"
	case badContainer:
		return "check that the image " + image + " is one of this version of drainproof and for the nodes' architecture"
	case exited:
		return "read the last lines of its log above; `drainproof probe --help` tells what it takes"
	case podFailed:
		return "look at the node's state: `kubectl describe pod` and `kubectl describe node`"
	default:
		return "look at it with `kubectl describe pod`"
	}
}
