package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drainproof/drainproof/internal/fault"
)

// auditResource is one resource that an audit reads.
type auditResource struct {
	path, name string
	// optional resources come with a CRD that a cluster may lack.
	optional bool
	// fields is a field selector; "" for all.
	fields string
}

var auditResources = []auditResource{
	{"/apis/apps/v1", "deployments", false, ""},
	{"/apis/apps/v1", "statefulsets", false, ""},
	{"/apis/apps/v1", "daemonsets", false, ""},
	{"/apis/apps/v1", "replicasets", false, ""},
	{"/apis/argoproj.io/v1alpha1", "rollouts", true, ""},
	{"/api/v1", "replicationcontrollers", false, ""},
	{"/api/v1", "pods", false, "status.phase!=Succeeded,status.phase!=Failed"},
	{"/api/v1", "services", false, ""},
	{"/apis/discovery.k8s.io/v1", "endpointslices", false, ""},
	{"/apis/networking.k8s.io/v1", "ingresses", false, ""},
	{"/apis/gateway.networking.k8s.io/v1", "gateways", true, ""},
	{"/apis/gateway.networking.k8s.io/v1", "httproutes", true, ""},
	{"/apis/gateway.networking.k8s.io/v1", "grpcroutes", true, ""},
	{"/apis/gateway.networking.k8s.io/v1alpha2", "tlsroutes", true, ""},
	{"/apis/gateway.networking.k8s.io/v1alpha2", "tcproutes", true, ""},
	{"/apis/gateway.networking.k8s.io/v1alpha2", "udproutes", true, ""},
	{"/apis/policy/v1", "poddisruptionbudgets", false, ""},
	{"/apis/autoscaling/v2", "horizontalpodautoscalers", false, ""},
	{"/apis/keda.sh/v1alpha1", "scaledobjects", true, ""},
}

// auditPage is how many objects one request asks for: a bound on memory, not on the result.
const auditPage = 500

// AuditObjects reads what an audit judges, as the API server's JSON: every resource in the
// namespaces (all of them for none), page by page. parse turns a page (a List) into objects;
// it is called from one goroutine.
//
// A resource that this account may not list, and one whose CRD is not installed, is left out; the first
// is said in notes. An account that may list nothing at all is an error.
func AuditObjects[T any](ctx context.Context, c *Cluster, namespaces []string, parse func(resource string, page []byte) ([]T, error)) (objects []T, notes []string, err error) {
	places := []string{""}
	if len(namespaces) > 0 {
		places = places[:0]
		for _, ns := range namespaces {
			places = append(places, "/namespaces/"+ns)
		}
	}
	allowed := 0
	for _, r := range auditResources {
		for _, place := range places {
			found, err := listPages(ctx, c, r.path+place+"/"+r.name, r.fields, auditPage, func(page []byte) ([]T, error) { return parse(r.name, page) })
			switch {
			case err == nil:
				allowed++
				objects = append(objects, found...)
			case apierrors.IsNotFound(err) && r.optional:
			case apierrors.IsNotFound(err):
				notes = append(notes, fmt.Sprintf("this API server does not serve %s%s", strings.TrimPrefix(r.path+"/", "/"), r.name))
			case apierrors.IsForbidden(err):
				notes = append(notes, fmt.Sprintf("this account may not list %s%s: what depends on them is not judged", r.name, inPlace(place)))
			default:
				return nil, nil, fault.Measuref(err, "try again; `kubectl get "+r.name+"` should say the same", "%s%s could not be listed", r.name, inPlace(place))
			}
		}
	}
	if allowed == 0 {
		return nil, nil, fault.Measuref(nil, "docs/permissions.md names what an audit reads", "this account may list nothing that an audit judges")
	}
	return objects, notes, nil
}

func inPlace(place string) string {
	if place == "" {
		return " in all namespaces"
	}
	return " in namespace " + strings.TrimPrefix(place, "/namespaces/")
}

func listPages[T any](ctx context.Context, c *Cluster, path, fields string, limit int, parse func([]byte) ([]T, error)) ([]T, error) {
	var all []T
	token := ""
	for {
		req := c.client.Discovery().RESTClient().Get().AbsPath(path)
		if limit > 0 {
			req = req.Param("limit", fmt.Sprint(limit))
		}
		if fields != "" {
			req = req.Param("fieldSelector", fields)
		}
		if token != "" {
			req = req.Param("continue", token)
		}
		page, err := req.Do(ctx).Raw()
		if token != "" && apierrors.IsResourceExpired(err) {
			// The list grew old while it was read: once more, in one piece.
			return listPages(ctx, c, path, fields, 0, parse)
		}
		if err != nil {
			return nil, err
		}
		objects, err := parse(page)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
		var meta struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
		}
		if err := decodeJSON(page, &meta); err != nil {
			return nil, err
		}
		if token = meta.Metadata.Continue; token == "" {
			return all, nil
		}
	}
}
