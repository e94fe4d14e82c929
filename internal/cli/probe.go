package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/probe"
)

func (a *app) probeCommand() *cobra.Command {
	c := probe.Config{}
	var onTerm, readiness string
	var noForceRST bool
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Be the bundled workload: answer heartbeats and requests, and end as told",
		Long: `Answers heartbeats over TCP and UDP and HTTP requests; every answer names this
instance, its Pod's UID and a sequence number. What it does on SIGTERM is its
configuration: exit at once (resetting its connections, which it logs), drain, or
ignore it. It logs JSON lines with wall and monotonic time to stdout.`,
		Example: `  drainproof probe --on-term drain --drain-window 25s
  drainproof probe --on-term exit --no-force-rst --exit-code 17
  printf '{"type":"ping","seq":1}\n' | nc localhost 7001`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("on-term", onTerm, string(probe.Exit), string(probe.Drain), string(probe.Ignore)); err != nil {
				return err
			}
			if err := oneOf("readiness-on-term", readiness, string(probe.Fail), string(probe.Keep)); err != nil {
				return err
			}
			if c.DrainWindow < 0 || c.DrainWindow > time.Hour {
				return fault.Usagef("give a duration between 0s and 1h", "--drain-window %v is out of range", c.DrainWindow)
			}
			if c.TickEvery <= 0 {
				return fault.Usagef("give a duration such as 1s", "--tick-every %v is not positive", c.TickEvery)
			}
			if c.ExitCode < 0 || c.ExitCode > 255 {
				return fault.Usagef("an exit code is between 0 and 255", "--exit-code %d is out of range", c.ExitCode)
			}
			c.Behaviour, c.ReadinessOnTerm = probe.Behaviour(onTerm), probe.Readiness(readiness)
			if noForceRST {
				c.ForceRST = false
			}
			c.Log = a.bareOut()
			c.PodUID = a.Getenv("POD_UID")
			if c.Instance = a.Getenv("POD_NAME"); c.Instance == "" {
				c.Instance, _ = os.Hostname() // an empty name is a name, too
			}
			// SIGTERM is this command's subject: it must not cancel it.
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
			defer signal.Stop(signals)
			code, err := probe.Run(context.WithoutCancel(cmd.Context()), c, signals, nil)
			if err != nil {
				return fault.Measuref(err, "see whether another process holds the port", "starting the probe")
			}
			a.code = fault.Code(code)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&onTerm, "on-term", string(probe.Drain), "behaviour on SIGTERM: exit, drain or ignore")
	f.StringVar(&readiness, "readiness-on-term", string(probe.Fail), "readiness from SIGTERM on: fail or keep")
	f.BoolVar(&c.ForceRST, "force-rst", true, "with --on-term exit, reset every TCP connection (SO_LINGER 0); logged as forced")
	f.BoolVar(&noForceRST, "no-force-rst", false, "with --on-term exit, leave the connections to the kernel")
	f.DurationVar(&c.DrainWindow, "drain-window", 25*time.Second, "how long a drain goes on")
	f.IntVar(&c.ExitCode, "exit-code", 0, "exit code after exit or drain")
	f.DurationVar(&c.TickEvery, "tick-every", time.Second, "heartbeat sent unasked on a TCP connection that is idle for this long")
	f.StringVar(&c.TCP, "tcp", ":7001", "address for TCP heartbeats")
	f.StringVar(&c.UDP, "udp", ":7002", "address for UDP answers")
	f.StringVar(&c.HTTP, "http", ":7080", "address for /healthz, /readyz, /slow?for=8s and /")
	return cmd
}
