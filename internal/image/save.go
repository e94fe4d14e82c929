package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drainproof/drainproof/internal/fault"
)

// Save writes a docker-archive, as `docker load`, `ctr images import` and
// `kind load image-archive` read it. The file appears whole or not at all; an existing one
// stays unless force. Errors are faults.
func Save(ctx context.Context, img v1.Image, ref, path string, force bool) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return badReference(ref, err)
	}
	if _, err := os.Lstat(path); err == nil && !force {
		return fault.Usagef("choose another file, or say --force", "%s exists", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Usagef("choose another file", "looking at %s: %v", path, err)
	}
	if err := save(ctx, img, tag, path); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("writing image archive %s: %w", path, ctx.Err())
		}
		return fault.Measuref(err, "check the folder, its permissions and the space left", "writing image archive %s", path)
	}
	return nil
}

func save(ctx context.Context, img v1.Image, tag name.Tag, path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already where renaming failed; the first error counts
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := tarball.Write(tag, img, &stoppable{ctx: ctx, w: f}); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// stoppable ends a long write when its context ends.
type stoppable struct {
	ctx context.Context
	w   io.Writer
}

func (s *stoppable) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// Push sends the image to a registry, with the credentials that docker and
// podman keep. insecure allows a registry that speaks plain HTTP. Errors are faults.
func Push(ctx context.Context, img v1.Image, ref string, insecure bool) error {
	var opts []name.Option
	if insecure {
		opts = append(opts, name.Insecure)
	}
	r, err := name.ParseReference(ref, opts...)
	if err != nil {
		return badReference(ref, err)
	}
	err = remote.Write(r, img, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("pushing image %s: %w", ref, ctx.Err())
	}
	next := "check the registry's name, and that `docker login` or `podman login` was done"
	if !insecure {
		next += "; a registry that speaks plain HTTP needs --insecure"
	}
	return fault.Measuref(err, next, "pushing image %s", ref)
}

func badReference(ref string, err error) error {
	return fault.Usagef("write it as HOST/NAME:TAG", "%q is no image reference: %v", ref, err)
}
