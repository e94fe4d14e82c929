package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drainproof/drainproof/internal/fault"
)

// A claim is written in labels of the workload itself, never of its Pod template. Not in annotations: the
// Deployment's controller copies those to the ReplicaSet and the StatefulSet's to each new revision, where they
// would stay. The node is not written: a drained one carries its own mark.
const (
	// LabelTest names the trial that tests a workload.
	LabelTest = "drainproof.dev/test"
	// labelTestSince and labelTestUntil are seconds since 1970, labelTestReplicas what a scale has to put back.
	labelTestSince    = LabelTest + "-since"
	labelTestUntil    = LabelTest + "-until"
	labelTestReplicas = LabelTest + "-replicas"
)

var claimLabels = []string{LabelTest, labelTestSince, labelTestUntil, labelTestReplicas}

// claimTries is how often a claim is tried again that lost a race for the object against its controller.
const claimTries = 20

// claimOf reads a claim; marked is false where there is none. One whose end cannot be read is over.
func claimOf(labels map[string]string) (c Claim, marked bool) {
	c.Trial, marked = labels[LabelTest]
	c.Until = unixTime(labels[labelTestUntil])
	if n, err := strconv.Atoi(labels[labelTestReplicas]); err == nil && n >= 0 {
		c.Replicas = &n
	}
	return c, marked
}

func unixTime(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// labels are those that the claim sets; nil takes one away.
func (c Claim) labels(now time.Time) map[string]*string {
	l := map[string]*string{
		LabelTest:         &c.Trial,
		labelTestSince:    new(strconv.FormatInt(now.Unix(), 10)),
		labelTestUntil:    new(strconv.FormatInt(c.Until.Unix(), 10)),
		labelTestReplicas: nil,
	}
	if c.Replicas != nil {
		l[labelTestReplicas] = new(strconv.Itoa(*c.Replicas))
	}
	return l
}

// Claim marks the workload for one trial, until Claim.Until. A workload that another trial holds is refused with an
// error that names it; a mark that is over is taken, unless something is still to be put back. release, which comes
// also beside an error of a request whose answer may have been lost, takes the mark away, if it is still this trial's; it is safe to call twice.
func (c *Cluster) Claim(ctx context.Context, w *Workload, claim Claim) (release func(context.Context) error, err error) {
	k, err := c.workloadKind(w.Kind)
	if err != nil {
		return nil, err
	}
	for range claimTries {
		s, err := k.get(ctx, w.Namespace, w.Name)
		switch {
		case err != nil:
			return nil, asking(ctx, err, "reading %s", w.Ref)
		case w.Facts.UID != "" && string(s.meta.UID) != w.Facts.UID:
			return nil, fault.Measuref(nil, "run it again", "%s was replaced by another of its name", w.Ref)
		}
		if err := mayClaim(w.Ref, s, claim.Trial, time.Now()); err != nil {
			return nil, err
		}
		// The resource version makes this a comparison and a swap: of two trials at once, one is told of the conflict.
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": s.meta.ResourceVersion, "labels": claim.labels(time.Now()),
		}})
		if err != nil {
			return nil, fmt.Errorf("writing the claim of %s: %w", w.Ref, err)
		}
		err = k.patch(ctx, w.Namespace, w.Name, types.MergePatchType, body)
		release = func(ctx context.Context) error { return c.release(ctx, k, w.Ref, claim.Trial) }
		switch {
		case err == nil:
			return release, nil
		case !apierrors.IsConflict(err):
			return release, asking(ctx, err, "marking %s for trial %s", w.Ref, claim.Trial)
		}
	}
	return nil, fault.Measuref(nil, "wait until its controller is done with it, then run it again", "%s changes so fast that it could not be marked in %d attempts", w.Ref, claimTries)
}

// mayClaim refuses what another trial holds, or has left in a state that is not the workload's own.
func mayClaim(r Ref, s *standing, trial string, now time.Time) error {
	held, marked := claimOf(s.meta.Labels)
	switch {
	case !marked || held.Trial == trial:
		return nil
	case now.Before(held.Until):
		return fault.Measuref(nil, "wait for it; if it is dead (its process was killed), `drainproof cleanup` puts back what it changed",
			"%s is being tested by trial %s until %s", r, held.Trial, held.Until.UTC().Format(time.RFC3339))
	case held.Replicas != nil && *held.Replicas != s.wanted:
		return fault.Measuref(nil, "run `drainproof cleanup`, which puts them back, or scale it yourself and remove its label "+LabelTest,
			"trial %s was never finished and left %s at %d of %d replicas", held.Trial, r, s.wanted, *held.Replicas)
	default:
		return nil
	}
}

// release takes the mark away. A workload that is gone, or no longer this trial's, needs none of it.
func (c *Cluster) release(ctx context.Context, k workloadKind, r Ref, trial string) error {
	s, err := k.get(ctx, r.Namespace, r.Name)
	if err == nil && s.meta.Labels[LabelTest] == trial {
		err = unmark(ctx, k, s, false)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fault.Measuref(err, "`drainproof cleanup` does it too", "taking the mark of trial %s from %s", trial, r)
	}
	return nil
}

// unmark removes the labels of a claim, as long as the mark is the one that s shows, and with putBack the scale that it asks for.
func unmark(ctx context.Context, k workloadKind, s *standing, putBack bool) error {
	held, _ := claimOf(s.meta.Labels)
	path := func(label string) string { return "/metadata/labels/" + strings.ReplaceAll(label, "/", "~1") }
	ops := []map[string]any{{"op": "test", "path": path(LabelTest), "value": held.Trial}}
	for _, label := range claimLabels {
		if _, ok := s.meta.Labels[label]; ok {
			ops = append(ops, map[string]any{"op": "remove", "path": path(label)})
		}
	}
	if putBack && held.Replicas != nil && *held.Replicas != s.wanted && k.kind != kindPod && k.kind != daemonSetKind.kind {
		ops = append(ops, map[string]any{"op": "replace", "path": "/spec/replicas", "value": *held.Replicas})
	}
	body, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	return k.patch(ctx, s.meta.Namespace, s.meta.Name, types.JSONPatchType, body)
}
