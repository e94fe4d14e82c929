package images

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reference is an image's name, taken apart.
type reference struct {
	// registry is "" for Docker Hub and its mirrors.
	registry string
	// path is the repository without the registry and without Docker Hub's "library/".
	path string
	// last is the path's last element.
	last string
	tag  string
}

func parseReference(image string) reference {
	image, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(image)), "@")
	r := reference{path: image}
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		r.path, r.tag = image[:colon], image[colon+1:]
	}
	if first, rest, ok := strings.Cut(r.path, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		r.registry, r.path = first, rest
	}
	switch r.registry {
	case "docker.io", "index.docker.io", "registry-1.docker.io", "mirror.gcr.io":
		r.registry = ""
	case "public.ecr.aws":
		// Amazon's public gallery mirrors Docker's official images below docker/ and Bitnami's below bitnami/.
		if rest, ok := strings.CutPrefix(r.path, "docker/"); ok {
			r.registry, r.path = "", rest
		} else if strings.HasPrefix(r.path, "bitnami/") {
			r.registry = ""
		}
	}
	if r.registry == "" {
		r.path = strings.TrimPrefix(r.path, "library/")
	}
	r.last = r.path[strings.LastIndexByte(r.path, '/')+1:]
	return r
}

// hub is the name on Docker Hub; "" for images of other registries.
func (r reference) hub() string {
	if r.registry != "" {
		return ""
	}
	return r.path
}

// server finds the server by the image's name alone, and whether the image is an official one of it.
func (r reference) server() (s *Server, official bool) {
	name := r.hub()
	if name == "php" || slices.Contains(phpApplications, name) {
		switch {
		case strings.Contains(r.tag, "fpm"):
			return phpFPM, true
		case strings.Contains(r.tag, "apache"), name != "php" && !strings.Contains(r.tag, "cli"):
			return phpApache, true
		}
		return phpCLI, false
	}
	if name == "nginx" {
		return officialNginx(r.tag)
	}
	if r.registry == "cgr.dev" && r.path == "chainguard/nginx" {
		return nginx, true // since chainguard-images#409
	}
	for _, s := range servers {
		if name != "" && slices.Contains(s.Official, name) {
			return s, true
		}
	}
	for suffix, s := range byPath {
		if r.path == suffix || strings.HasSuffix(r.path, "/"+suffix) {
			return s, false
		}
	}
	return byRepository[r.last], false
}

var (
	nginxVersion = regexp.MustCompile(`^1\.(\d+)(?:\.(\d+))?`)
	ubi          = regexp.MustCompile(`^ubi\d*(-minimal)?$`)
)

// officialNginx is told from the tag. Docker's image has STOPSIGNAL SIGQUIT since November 2020
// (docker-nginx 3fb70dd), and had it for some weeks of 2017 (official-images#2869, undone by 16ec71e):
// of the tags that were built around these dates the image must be asked.
func officialNginx(tag string) (s *Server, official bool) {
	m := nginxVersion.FindStringSubmatch(tag)
	if m == nil {
		return nginx, true
	}
	minor, _ := strconv.Atoi(m[1])
	patch, err := strconv.Atoi(m[2])
	switch {
	case minor == 12, minor == 13, minor == 18, minor == 19 && err == nil && patch < 5:
		return nginx, false
	case minor < 18:
		return nginxOnTERM, true
	}
	return nginx, true
}

// shell says whether a shell is in the image.
func (r reference) shell() string {
	switch {
	case r.bare():
		return "no"
	case r.sh() != "" || strings.HasPrefix(r.path, "bitnami/") || strings.HasPrefix(r.path, "bitnamilegacy/"):
		return "yes"
	}
	return ""
}

// bare: no shell is in the image, by its name.
func (r reference) bare() bool {
	debug := strings.Contains(r.tag, "debug") || strings.HasSuffix(r.tag, "-dev")
	switch {
	case debug:
		return false
	case r.path == "scratch", r.last == "pause", strings.HasSuffix(r.last, "-distroless"), strings.Contains(r.tag, "distroless"), strings.Contains(r.tag, "chiseled"):
		return true
	case strings.HasPrefix(r.path, "distroless/"), strings.Contains(r.path, "/distroless/"):
		return true
	case r.registry == "cgr.dev" || strings.HasPrefix(r.path, "chainguard/"):
		return slices.Contains(chainguardBare, r.last)
	}
	s, _ := r.server()
	switch s {
	case linkerdProxy:
		return true
	case cloudSQLProxy:
		return r.sh() == ""
	}
	return false
}

// sh is the program behind /bin/sh, by the image's name.
func (r reference) sh() string {
	words := r.last + "-" + r.tag
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(words, n) })
	}
	switch {
	case strings.Contains(r.path, "distroless") || strings.Contains(r.tag, "distroless"):
		// Their names tell the base system, of which no shell is left; the debug tags hold BusyBox.
		if strings.Contains(r.tag, "debug") {
			return "busybox"
		}
		return ""
	case has("alpine", "busybox"):
		return "busybox"
	case has("debian", "ubuntu", "trixie", "bookworm", "bullseye", "buster", "stretch", "noble", "jammy", "focal", "bionic"):
		return "dash"
	case has("centos", "rockylinux", "almalinux", "fedora", "oraclelinux", "amazonlinux") || ubi.MatchString(r.last):
		return "bash"
	}
	if name := r.hub(); name != "" {
		return officialSh[name]
	}
	return ""
}
