// Package images knows the servers that well-known container images hold: which
// signal stops them gently, what they do to their listener on it, and whether a
// shell and a sleep program are in the image.
//
// It knows names of images and commands only; it pulls nothing. What an image's
// tag or a rebuilt copy changes it cannot know, and says so.
package images

import "regexp"

// Server is what is known about one server program.
type Server struct {
	// Name is nginx, httpd, haproxy, postgres, gunicorn, ...
	Name string
	// Gentle is the signal that lets it finish what it has, e.g. SIGQUIT; "" where
	// no signal does better than SIGTERM.
	Gentle string
	// Needs is what the gentle signal needs besides to be gentle, e.g. a setting that is not the default.
	Needs string
	// OnTERM says what SIGTERM does to it, in a phrase that follows its name.
	OnTERM string
	// TERMDropsRequests: SIGTERM ends requests in flight.
	TERMDropsRequests bool
	// ClosesListener: on its stop signal it stops accepting at once, so that
	// whoever still sends new connections is refused.
	ClosesListener bool
	// ConfigDelay names a setting outside of the manifest that makes it go on accepting after its stop signal.
	ConfigDelay string
	// DelayFlag is the argument that makes it go on accepting after its stop signal; see Delay.
	DelayFlag string
	// Sessions: its clients stay connected as long as they like, and no signal is gentle to all of
	// them; what each signal means, in a phrase that names the shutdown. Nil for other servers.
	Sessions map[string]string
	// Clustered: its clients know the members and move to another one by
	// themselves, so that a refused connection is part of its protocol.
	Clustered bool
	// CodeDecides: it is a runtime, and the application's code decides what a stop signal does.
	CodeDecides bool
	// Sidecar: it stands between an application and its network, so the application needs it until its own end.
	Sidecar bool
	// ImageStop is the STOPSIGNAL of the official image; "" where it sets none (then SIGTERM).
	ImageStop string
	// Official are the names of images that carry ImageStop, without registry and tag.
	Official []string
	// Sources is where this is written.
	Sources []string

	// drains match the commands with which a hook makes it finish gently.
	drains []*regexp.Regexp
	// delay matches DelayFlag in the arguments and holds the value in its last group.
	delay *regexp.Regexp
}

// Known is what an image reference and a command tell.
type Known struct {
	// Server is nil where neither image nor command names a known one.
	Server *Server
	// Official says that the image is the one that sets Server.ImageStop. A copy
	// under another name may have lost it.
	Official bool
	// Shell says whether a shell is in the image: yes, no, or "" for unknown. A distroless or
	// scratch-built image has none; its name often says so.
	Shell string
	// Sh is the program behind /bin/sh where the image's name tells: dash, busybox or bash; "" elsewhere.
	Sh string
}

// Identify says what is known of a container.
func Identify(image string, command, args []string) Known { return identify(image, command, args) }
