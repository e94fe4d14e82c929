//go:build e2e

package localcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const servedImage = "localhost/drainproof/served:test"

// servedArchive builds the workload of these tests into an image archive.
func servedArchive(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "served")
	cmd := exec.Command("go", "build", "-o", program, "./testdata/served")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the workload: %v\n%s", err, out)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "served.tar")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeArchive(f, servedImage, runtime.GOARCH, "served", binary); err != nil {
		t.Fatal(err)
	}
	return archive
}

func clientOf(t *testing.T, c *Cluster) *apiClient {
	t.Helper()
	api, err := newAPIClient(c.plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.close)
	return api
}

func post(t *testing.T, api *apiClient, path string, object any) {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.do(t.Context(), http.MethodPost, path, "application/json", body, nil); err != nil {
		t.Fatal(err)
	}
}

type object = map[string]any

// deploy makes a Pod on each of the nodes and one NodePort Service for all.
func deploy(t *testing.T, api *apiClient, nodes []Node) {
	t.Helper()
	for i, n := range nodes {
		post(t, api, "/api/v1/namespaces/default/pods", object{
			"metadata": object{"name": fmt.Sprintf("served-%d", i), "labels": object{"app": "served"}},
			"spec": object{
				"nodeName":    n.Name,
				"tolerations": []object{{"operator": "Exists"}},
				"containers": []object{{
					"name": "served", "image": servedImage, "imagePullPolicy": "Never",
					"readinessProbe": object{"httpGet": object{"path": "/", "port": 8080}, "periodSeconds": 1},
				}},
			},
		})
	}
	post(t, api, "/api/v1/namespaces/default/services", object{
		"metadata": object{"name": "served"},
		"spec": object{
			"type": "NodePort", "selector": object{"app": "served"},
			"ports": []object{{"port": 80, "targetPort": 8080, "nodePort": 30080}},
		},
	})
}

// served asks until an answer comes, and gives it.
func served(t *testing.T, url string) string {
	t.Helper()
	var answer string
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err := poll(t.Context(), 50*time.Millisecond, 30*time.Second, func() (bool, error) {
		resp, err := client.Get(url)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		answer = strings.TrimSpace(string(b))
		return err == nil && resp.StatusCode == http.StatusOK, err
	})
	if err != nil {
		t.Fatalf("%s does not answer: %v", url, err)
	}
	return answer
}

// reachable checks every way to the workload, which has one Pod per node: from
// this machine, and from each Pod.
func reachable(t *testing.T, c *Cluster) {
	t.Helper()
	api := clientOf(t, c)
	var service struct{ Spec struct{ ClusterIP string } }
	if err := api.get(t.Context(), "/api/v1/namespaces/default/services/served", &service); err != nil {
		t.Fatal(err)
	}
	var pods []string
	for i := range c.Nodes() {
		pods = append(pods, "http://"+podIP(t, api, fmt.Sprintf("served-%d", i))+":8080/")
	}
	reachableFrom(t, c, "", pods, service.Spec.ClusterIP)
	for _, pod := range pods {
		reachableFrom(t, c, pod+"?get=", pods, service.Spec.ClusterIP)
	}
}

// reachableFrom checks the ways from one place: via is a Pod's URL to put before, or empty.
func reachableFrom(t *testing.T, c *Cluster, via string, pods []string, clusterIP string) {
	t.Helper()
	for i, pod := range pods {
		if got, want := served(t, via+pod), fmt.Sprintf("served-%d", i); got != want {
			t.Errorf("Pod %s answers %q", want, got)
		}
	}
	services := []string{"http://" + clusterIP + "/"}
	for _, n := range c.Nodes() {
		services = append(services, fmt.Sprintf("http://%s:30080/", n.Addr))
	}
	for _, url := range services {
		seen := map[string]bool{}
		// A Pod serves before it is announced.
		err := poll(t.Context(), 10*time.Millisecond, 30*time.Second, func() (bool, error) {
			seen[served(t, via+url)] = true
			return len(seen) == len(pods), nil
		})
		if err != nil {
			t.Errorf("%s%s reaches only the Pods %v: %v", via, url, seen, err)
		}
	}
}

// podIP waits until a Pod has an address.
func podIP(t *testing.T, api *apiClient, name string) string {
	t.Helper()
	var pod struct{ Status struct{ PodIP string } }
	err := poll(t.Context(), 50*time.Millisecond, 30*time.Second, func() (bool, error) {
		err := api.get(t.Context(), "/api/v1/namespaces/default/pods/"+name, &pod)
		return pod.Status.PodIP != "", err
	})
	if err != nil {
		t.Fatalf("Pod %s has no address: %v", name, err)
	}
	return pod.Status.PodIP
}

// podLog reads a log through the API server and the kubelet.
func podLog(t *testing.T, c *Cluster, pod string) string {
	t.Helper()
	kubectl := filepath.Join(c.PartsDir(), "kubectl")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, kubectl, "--kubeconfig", c.KubeconfigPath(), "logs", pod).CombinedOutput()
	if err != nil {
		t.Fatalf("read the log of Pod %s: %v\n%s", pod, err, out)
	}
	return string(out)
}
