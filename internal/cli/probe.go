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
		Long: `Answers heartbeats over TCP and UDP, requests over HTTP/1.1, HTTP/2 without TLS and
gRPC (its health service), and WebSockets; every answer names this instance and its
Pod's UID. What it does on SIGTERM is its configuration: exit at once (resetting its
connections, which it logs), drain (serve on until the end of the window), finish
(stop accepting, answer what is in flight, exit), or ignore it. It logs JSON lines
with wall and monotonic time to stdout.`,
		Example: `  drainproof probe --on-term drain --drain-window 25s
  drainproof probe --on-term finish --announce=false --health :7081
  drainproof probe --on-term exit --no-force-rst --exit-code 17
  printf '{"type":"ping","seq":1}\n' | nc localhost 7001`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("on-term", onTerm, string(probe.Exit), string(probe.Drain), string(probe.Finish), string(probe.Ignore)); err != nil {
				return err
			}
			if err := oneOf("readiness-on-term", readiness, string(probe.Fail), string(probe.Keep)); err != nil {
				return err
			}
			if c.DrainWindow < 0 || c.DrainWindow > time.Hour {
				return fault.Usagef("give a duration between 0s and 1h", "--drain-window %v is out of range", c.DrainWindow)
			}
			if c.StartDelay < 0 || c.StartDelay > time.Hour {
				return fault.Usagef("give a duration between 0s and 1h", "--start-delay %v is out of range", c.StartDelay)
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
	f.StringVar(&onTerm, "on-term", string(probe.Drain), "behaviour on SIGTERM: exit, drain, finish or ignore")
	f.StringVar(&readiness, "readiness-on-term", string(probe.Fail), "readiness from SIGTERM on: fail or keep")
	f.BoolVar(&c.ForceRST, "force-rst", true, "with --on-term exit, reset every TCP connection (SO_LINGER 0); logged as forced")
	f.BoolVar(&noForceRST, "no-force-rst", false, "with --on-term exit, leave the connections to the kernel")
	f.DurationVar(&c.DrainWindow, "drain-window", 25*time.Second, "how long a drain goes on, and how long finishing may take")
	f.BoolVar(&c.Announce, "announce", true, "with --on-term finish, tell kept connections of the end (Connection: close, GOAWAY, close 1001); else they stay open until the exit")
	f.IntVar(&c.ExitCode, "exit-code", 0, "exit code after exit, drain or finish")
	f.DurationVar(&c.StartDelay, "start-delay", 0, "how long it takes before it listens")
	f.DurationVar(&c.TickEvery, "tick-every", time.Second, "heartbeat sent unasked on a TCP connection that is idle for this long")
	f.StringVar(&c.TCP, "tcp", ":7001", "address for TCP heartbeats")
	f.StringVar(&c.UDP, "udp", ":7002", "address for UDP answers")
	f.StringVar(&c.HTTP, "http", ":7080", "address for /, /slow?for=8s, /ws, /drain, gRPC, /healthz and /readyz")
	f.StringVar(&c.Health, "health", "", "one more address for /healthz and /readyz, answered from the first moment to the last (default none)")
	return cmd
}

// probeHookCommand is a preStop hook, since the images hold no shell that could be one.
func (a *app) probeHookCommand() *cobra.Command {
	var url string
	var sleep time.Duration
	cmd := &cobra.Command{
		Use:    "probe-hook",
		Short:  "Be a preStop hook: call a URL, then sleep",
		Hidden: true,
		Long: `Calls the URL, which must answer with a status from 200 to 299, and sleeps. It is the
preStop hook of the bundled workload, whose image holds no shell.`,
		Example: `  drainproof probe-hook --url http://127.0.0.1:7080/drain --sleep 2s`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" {
				return fault.Usagef("give --url, such as http://127.0.0.1:7080/drain", "there is nothing to call")
			}
			if sleep < 0 || sleep > time.Hour {
				return fault.Usagef("give a duration between 0s and 1h", "--sleep %v is out of range", sleep)
			}
			return probe.Hook(cmd.Context(), url, sleep)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "what to call, with POST")
	cmd.Flags().DurationVar(&sleep, "sleep", 0, "how long to sleep afterwards")
	return cmd
}
