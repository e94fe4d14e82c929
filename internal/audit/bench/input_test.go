package bench

import (
	"fmt"
	"strings"
)

// documents writes n documents as a large repository holds them: of ten, three
// workloads, two Services, an Ingress, a disruption budget, an autoscaler, a ConfigMap and a Role.
func documents(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString("---\n")
		}
		app := fmt.Sprintf("app-%d", i/10)
		switch i % 10 {
		case 0:
			fmt.Fprintf(&b, deployment, app, app, app, app)
		case 1:
			fmt.Fprintf(&b, statefulSet, app, app, app, app)
		case 2:
			fmt.Fprintf(&b, daemonSet, app, app, app)
		case 3:
			fmt.Fprintf(&b, service, app, app)
		case 4:
			fmt.Fprintf(&b, service, app+"-db", app+"-db")
		case 5:
			fmt.Fprintf(&b, ingress, app, app, app)
		case 6:
			fmt.Fprintf(&b, pdb, app, app)
		case 7:
			fmt.Fprintf(&b, hpa, app, app)
		case 8:
			fmt.Fprintf(&b, configMap, app)
		default:
			fmt.Fprintf(&b, role, app)
		}
	}
	return b.String()
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: %s
  namespace: shop
spec:
  replicas: 3
  selector:
    matchLabels: {app: %s}
  template:
    metadata:
      labels: {app: %s}
    spec:
      containers:
        - name: web
          image: registry.example.com/%s:v1.2.3
          ports:
            - {name: http, containerPort: 8080}
          env:
            - {name: LOG_LEVEL, value: info}
            - {name: REGION, value: north}
          resources:
            requests: {cpu: 100m, memory: 128Mi}
            limits: {memory: 256Mi}
          readinessProbe:
            httpGet: {path: /ready, port: http}
            periodSeconds: 5
          livenessProbe:
            httpGet: {path: /live, port: http}
            initialDelaySeconds: 10
`

const statefulSet = `apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: %s-db
  namespace: shop
spec:
  serviceName: %s-db
  replicas: 2
  selector:
    matchLabels: {app: %s-db}
  template:
    metadata:
      labels: {app: %s-db}
    spec:
      terminationGracePeriodSeconds: 60
      containers:
        - name: db
          image: postgres:17
          ports:
            - {name: sql, containerPort: 5432}
          readinessProbe:
            exec: {command: [pg_isready]}
          lifecycle:
            preStop:
              exec: {command: [/bin/sh, -c, "sleep 5"]}
`

const daemonSet = `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: %s-agent
  namespace: shop
spec:
  selector:
    matchLabels: {app: %s-agent}
  template:
    metadata:
      labels: {app: %s-agent}
    spec:
      containers:
        - name: agent
          image: registry.example.com/agent:v1
          ports:
            - {containerPort: 9100, hostPort: 9100}
`

const service = `apiVersion: v1
kind: Service
metadata:
  name: %s
  namespace: shop
spec:
  selector: {app: %s}
  ports:
    - {name: http, port: 80, targetPort: 8080}
`

const ingress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: %s
  namespace: shop
spec:
  ingressClassName: nginx
  rules:
    - host: %s.example.com
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service: {name: %s, port: {number: 80}}
`

const pdb = `apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: %s
  namespace: shop
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {app: %s}
`

const hpa = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: %s
  namespace: shop
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}
  minReplicas: 3
  maxReplicas: 10
`

const configMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: %s
  namespace: shop
data:
  app.conf: |
    listen: 8080
    timeout: 30
    upstreams:
      - one
      - two
`

const role = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: %s
  namespace: shop
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch]
`
