// Package experiment is arms x repeats: it reads an experiment file, runs its
// trials in order, resumes after an interruption, and refuses to let one set hold
// records of different tools, clusters' versions or data planes.
//
// It must not know how a trial works inside, nor print anything: it calls a
// runner that it is given.
package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trial"
)

// APIVersion and Kind head every experiment file.
const (
	APIVersion = "drainproof.dev/v1"
	Kind       = "Experiment"
)

// Experiment is a file that was read and found valid.
type Experiment struct {
	Name        string
	Description string
	Repeats     int
	Arms        []Arm
	// Source is the file as it was read, Sha256 its digest: a set belongs to one.
	Source []byte
	Sha256 string
}

// Arm is one fixed configuration.
type Arm struct {
	Name   string
	Config record.Config
	// RequestPath is the path and query of the requests, or /service/method; empty where Config has no
	// Traffic. The record holds it in the URL, which is known once the workload is deployed.
	RequestPath string
}

// file is the YAML form. Unknown fields are errors.
type file struct {
	APIVersion  string    `yaml:"apiVersion"`
	Kind        string    `yaml:"kind"`
	Name        string    `yaml:"name"`
	Description string    `yaml:"description"`
	Repeats     int       `yaml:"repeats"`
	Defaults    settings  `yaml:"defaults"`
	Arms        []fileArm `yaml:"arms"`
}

type fileArm struct {
	Name string `yaml:"name"`
	settings
}

// settings are the flags of `drainproof run` in camel case, and what only experiments know; null means inherit.
type settings struct {
	Arm             *string          `yaml:"arm"`
	Trigger         *string          `yaml:"trigger"`
	ForceRST        *bool            `yaml:"forceRST"`
	Grace           *string          `yaml:"grace"`
	DrainWindow     *string          `yaml:"drainWindow"`
	ReadinessOnTerm *string          `yaml:"readinessOnTerm"`
	ReadinessEvery  *string          `yaml:"readinessEvery"`
	PreStopSleep    *string          `yaml:"preStopSleep"`
	TCP             *int             `yaml:"tcp"`
	UDP             *int             `yaml:"udp"`
	Path            *string          `yaml:"path"`
	Vantage         *string          `yaml:"vantage"`
	Settle          *string          `yaml:"settle"`
	Observe         *string          `yaml:"observe"`
	Heartbeat       *string          `yaml:"heartbeat"`
	ReadTimeout     *string          `yaml:"readTimeout"`
	ExitCode        *int             `yaml:"exitCode"`
	Requests        *requestSettings `yaml:"requests"`
	Probe           *probeSettings   `yaml:"probe"`
}

// Read reads an experiment file; every mistake in it is wrong use (exit code 2).
func Read(path string) (*Experiment, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, fault.Usagef("give the path of an experiment file; experiments/ in the repository has some", "reading experiment file: %v", err)
	}
	e, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// maxFile bounds an experiment file; the shipped ones have some 2 KiB.
const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return b, err
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Parse reads an experiment from its YAML.
func Parse(b []byte) (*Experiment, error) {
	bad := func(format string, args ...any) error {
		return fault.Usagef("docs/experiments.md describes the file", "experiment file: "+format, args...)
	}
	var f file
	if err := decode(b, &f); err != nil {
		return nil, bad("%v", err)
	}
	switch {
	case f.APIVersion != APIVersion || f.Kind != Kind:
		return nil, bad("it must say apiVersion: %s and kind: %s, not %q and %q", APIVersion, Kind, f.APIVersion, f.Kind)
	case !nameForm.MatchString(f.Name):
		return nil, bad("name %q must be lower-case letters, digits and hyphens", f.Name)
	case f.Repeats < 1 || f.Repeats > 1000:
		return nil, bad("repeats %d must be between 1 and 1000", f.Repeats)
	case len(f.Arms) == 0:
		return nil, bad("it has no arms")
	}
	sum := sha256.Sum256(b)
	e := &Experiment{Name: f.Name, Description: f.Description, Repeats: f.Repeats, Source: b, Sha256: hex.EncodeToString(sum[:])}
	seen := map[string]bool{}
	for i, fa := range f.Arms {
		if !nameForm.MatchString(fa.Name) {
			return nil, bad("arm %d: name %q must be lower-case letters, digits and hyphens", i+1, fa.Name)
		}
		if seen[fa.Name] {
			return nil, bad("two arms are named %q", fa.Name)
		}
		seen[fa.Name] = true
		a := Arm{Name: fa.Name, Config: trial.Defaults()}
		for _, s := range []settings{f.Defaults, fa.settings} {
			if err := s.apply(&a); err != nil {
				return nil, bad("arm %s: %v", a.Name, err)
			}
		}
		if err := a.complete(f.Defaults, fa.settings); err != nil {
			return nil, fmt.Errorf("experiment file: arm %s: %w", a.Name, err)
		}
		e.Arms = append(e.Arms, a)
	}
	return e, nil
}

// Single is an experiment of one arm, as `drainproof run --repeat` makes it.
func Single(c record.Config, repeats int) *Experiment {
	name := c.Arm + "-" + c.Trigger
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v %d", c, repeats))
	return &Experiment{Name: name, Repeats: repeats, Arms: []Arm{{Name: name, Config: c}}, Sha256: hex.EncodeToString(sum[:])}
}

func (s settings) apply(a *Arm) error {
	c := &a.Config
	set(&c.Arm, s.Arm)
	set(&c.Trigger, s.Trigger)
	set(&c.ForceRST, s.ForceRST)
	set(&c.ReadinessOnTerm, s.ReadinessOnTerm)
	set(&c.TCP, s.TCP)
	set(&c.UDP, s.UDP)
	set(&c.Path, s.Path)
	set(&c.Vantage, s.Vantage)
	set(&c.ExitCode, s.ExitCode)
	if err := setDurations([]duration{
		{"grace", s.Grace, &c.GraceNs}, {"drainWindow", s.DrainWindow, &c.DrainWindowNs}, {"readinessEvery", s.ReadinessEvery, &c.ReadinessEveryNs},
		{"preStopSleep", s.PreStopSleep, &c.PreStopSleepNs}, {"settle", s.Settle, &c.SettleNs}, {"observe", s.Observe, &c.ObserveNs},
		{"heartbeat", s.Heartbeat, &c.HeartbeatNs}, {"readTimeout", s.ReadTimeout, &c.ReadTimeoutNs},
	}); err != nil {
		return err
	}
	if err := s.Requests.apply(a); err != nil {
		return err
	}
	return s.Probe.apply(c)
}

func set[T any](field *T, v *T) {
	if v != nil {
		*field = *v
	}
}

// duration is a setting that holds one; text is nil where it was left out.
type duration struct {
	field string
	text  *string
	ns    *int64
}

func setDurations(ds []duration) error {
	for _, d := range ds {
		if d.text == nil {
			continue
		}
		v, err := time.ParseDuration(*d.text)
		if err != nil || v < 0 {
			return fmt.Errorf("%s %q is not a duration such as 30s", d.field, shortened(*d.text))
		}
		*d.ns = int64(v)
	}
	return nil
}
