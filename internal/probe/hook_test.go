package probe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestHookThatIsNotAnswered(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	for _, url := range []string{"http://" + r.http + "/nothing", "http://" + r.http + PathSlow, "http://127.0.0.1:1/drain", "drain", ":"} {
		if err := Hook(t.Context(), url, time.Hour); fault.CodeOf(err) != fault.Unmeasurable {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestHookEndsWithItsContext(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Hook(ctx, "http://"+r.http+PathDrain, time.Hour) }()
	r.log.find(t, LogHookDrain)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || fault.CodeOf(err) != fault.Unmeasurable {
		t.Errorf("got %v", err)
	}
}
