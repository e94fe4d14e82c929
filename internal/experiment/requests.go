package experiment

import (
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trial"
)

// requestSettings are what the clients of a trial of requests send; null means inherit.
type requestSettings struct {
	Mode             *string  `yaml:"mode"`
	Rate             *float64 `yaml:"rate"`
	Users            *int     `yaml:"users"`
	Path             *string  `yaml:"path"`
	Method           *string  `yaml:"method"`
	Expect           *string  `yaml:"expect"`
	Before           *string  `yaml:"before"`
	After            *string  `yaml:"after"`
	DNSTimeout       *string  `yaml:"dnsTimeout"`
	ConnectTimeout   *string  `yaml:"connectTimeout"`
	TLSTimeout       *string  `yaml:"tlsTimeout"`
	FirstByteTimeout *string  `yaml:"firstByteTimeout"`
	WholeTimeout     *string  `yaml:"wholeTimeout"`
	WaitFor          *string  `yaml:"waitFor"`
	WaitTimeout      *string  `yaml:"waitTimeout"`
}

// probeSettings are how the probe is deployed for requests; null means inherit.
type probeSettings struct {
	Replicas           *int    `yaml:"replicas"`
	Strategy           *string `yaml:"strategy"`
	MaxUnavailable     *string `yaml:"maxUnavailable"`
	MaxSurge           *string `yaml:"maxSurge"`
	BudgetMinAvailable *int    `yaml:"budgetMinAvailable"`
	StartDelay         *string `yaml:"startDelay"`
	NoReadinessProbe   *bool   `yaml:"noReadinessProbe"`
	DrainHook          *string `yaml:"drainHook"`
	Announce           *bool   `yaml:"announce"`
}

func (s *requestSettings) apply(a *Arm) error {
	if s == nil {
		return nil
	}
	if a.Config.Traffic == nil {
		a.Config.Traffic = new(trial.DefaultTraffic())
	}
	t := a.Config.Traffic
	set(&t.Mode, s.Mode)
	set(&t.Rate, s.Rate)
	set(&t.Users, s.Users)
	set(&a.RequestPath, s.Path)
	set(&t.Method, s.Method)
	set(&t.Expect, s.Expect)
	set(&t.WaitFor, s.WaitFor)
	return setDurations([]duration{
		{"requests: before", s.Before, &t.BeforeNs}, {"requests: after", s.After, &t.AfterNs}, {"requests: waitTimeout", s.WaitTimeout, &t.WaitNs},
		{"requests: dnsTimeout", s.DNSTimeout, &t.DNSNs}, {"requests: connectTimeout", s.ConnectTimeout, &t.ConnectNs},
		{"requests: tlsTimeout", s.TLSTimeout, &t.TLSNs}, {"requests: firstByteTimeout", s.FirstByteTimeout, &t.FirstByteNs},
		{"requests: wholeTimeout", s.WholeTimeout, &t.WholeNs},
	})
}

func (s *probeSettings) apply(c *record.Config) error {
	if s == nil {
		return nil
	}
	if c.Probe == nil {
		c.Probe = new(trial.DefaultProbe())
	}
	p := c.Probe
	set(&p.Replicas, s.Replicas)
	set(&p.Strategy, s.Strategy)
	set(&p.MaxUnavailable, s.MaxUnavailable)
	set(&p.MaxSurge, s.MaxSurge)
	set(&p.NoReadinessProbe, s.NoReadinessProbe)
	set(&p.Announce, s.Announce)
	if s.BudgetMinAvailable != nil {
		p.BudgetMinAvailable = new(*s.BudgetMinAvailable)
	}
	return setDurations([]duration{{"probe: startDelay", s.StartDelay, &p.StartDelayNs}, {"probe: drainHook", s.DrainHook, &p.DrainHookNs}})
}

// complete fills what follows from the settings, given in order of their weight, and refuses what cannot be measured.
func (a *Arm) complete(from ...settings) error {
	c := &a.Config
	if c.Traffic != nil {
		// A trial of requests holds no flows, unless the file asks for both, which is refused.
		var tcp, udp int
		for _, s := range from {
			set(&tcp, s.TCP)
			set(&udp, s.UDP)
		}
		c.TCP, c.UDP = tcp, udp
		if c.Probe == nil {
			c.Probe = new(trial.DefaultProbe())
		}
		if a.RequestPath == "" {
			a.RequestPath = trial.DefaultPath(c.Traffic.Mode)
		}
	}
	*c = trial.Complete(*c)
	if err := trial.Validate(*c); err != nil {
		return err
	}
	if c.Traffic != nil {
		return trial.ValidatePath(c.Traffic.Mode, a.RequestPath)
	}
	return nil
}
