package cli

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run the program in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"drainproof": func() {
			os.Exit(Run(context.Background(), os.Args, System()))
		},
	})
}

// TestScripts runs testdata/script/*.txtar: command lines, exit codes and
// messages, without a cluster.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("DRAINPROOF_STATE_DIR", e.WorkDir+"/state")
			e.Setenv("DRAINPROOF_CACHE_DIR", e.WorkDir+"/cache")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// exits N COMMAND...: the command must end with that code, with one
			// message and no stack trace.
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits CODE COMMAND...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				err = ts.Exec(args[1], args[2:]...)
				got := 0
				if err != nil {
					exit, ok := err.(interface{ ExitCode() int })
					if !ok {
						ts.Fatalf("running %v: %v", args[1:], err)
					}
					got = exit.ExitCode()
				}
				if got != want {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
			},
		},
	})
}
