package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/image"
)

// ownImage is the image of this very program, or of another build of it for the cluster's platform.
func ownImage(binary, arch string) (image.Image, string, error) {
	if binary == "" {
		if runtime.GOOS != "linux" {
			return nil, "", fault.Usagef("give a Linux build of drainproof with --binary (make build-all), or an image with --image",
				"this program is for %s, and containers need one for Linux", runtime.GOOS)
		}
		path, err := ownFile()
		if err != nil {
			return nil, "", err
		}
		binary = path
	}
	if arch == "" {
		arch = runtime.GOARCH
	}
	ref, err := image.Reference(versionString(), binary)
	if err != nil {
		return nil, "", err
	}
	img, err := image.Build(image.Spec{Binary: binary, Arch: arch, Version: versionString(), Name: "/drainproof"})
	if err != nil {
		return nil, "", err
	}
	return img, ref, nil
}

// withImageFile gives do a temporary archive of the image.
func withImageFile(ctx context.Context, img image.Image, ref string, do func(path string) error) error {
	dir, err := os.MkdirTemp("", "drainproof-image-")
	if err != nil {
		return fault.Measuref(err, "make room in the folder for temporary files (TMPDIR)", "making a folder for the image")
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "image.tar")
	if err := image.Save(ctx, img, ref, path, false); err != nil {
		return err
	}
	return do(path)
}

func (a *app) imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make the image of this program, without Docker, and save or push it",
		Long: `The probe and the client in a Pod run this very program from an image of one layer.
Local clusters get it by themselves. For another cluster save it and load it with the
cluster's own tool, or push it to a registry; docs/clusters.md has the commands.`,
		Example: `  drainproof image save drainproof.tar && kind load image-archive drainproof.tar
  drainproof image push registry.example/team/drainproof:1`,
		Args: exactArgs(),
		RunE: a.needsSubcommand,
	}
	var binary, arch, ref string
	var force, insecure bool
	flags := func(c *cobra.Command) *cobra.Command {
		c.Flags().StringVar(&binary, "binary", "", "a static Linux build of drainproof (default: this program)")
		c.Flags().StringVar(&arch, "arch", "", "the binary's architecture: amd64 or arm64 (default: this machine's)")
		return c
	}
	save := flags(&cobra.Command{
		Use: "save FILE", Short: "Write the image as an archive that docker, kind, k3d, minikube and ctr load",
		Example: `  drainproof image save drainproof.tar`,
		Args:    exactArgs("the archive's path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			img, own, err := ownImage(binary, arch)
			if err != nil {
				return err
			}
			if ref == "" {
				ref = own
			}
			if err := image.Save(cmd.Context(), img, ref, args[0], force); err != nil {
				return err
			}
			fmt.Fprintln(a.Out, ref)
			return nil
		},
	})
	save.Flags().StringVar(&ref, "reference", "", "name of the image in the archive (default: drainproof.dev/drainproof:VERSION-DIGEST)")
	save.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	push := flags(&cobra.Command{
		Use: "push REFERENCE", Short: "Push the image to a registry",
		Long:    "Push the image to a registry, with the credentials that docker or podman login left.",
		Example: `  drainproof image push registry.example/team/drainproof:1`,
		Args:    exactArgs("the image's reference"),
		RunE: func(cmd *cobra.Command, args []string) error {
			img, _, err := ownImage(binary, arch)
			if err != nil {
				return err
			}
			if err := image.Push(cmd.Context(), img, args[0], insecure); err != nil {
				return err
			}
			fmt.Fprintln(a.Out, args[0])
			return nil
		},
	})
	push.Flags().BoolVar(&insecure, "insecure", false, "allow a registry without TLS")
	show := flags(&cobra.Command{
		Use: "reference", Short: "Print the image's default reference", Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			_, own, err := ownImage(binary, arch)
			if err == nil {
				fmt.Fprintln(a.Out, own)
			}
			return err
		},
	})
	cmd.AddCommand(save, push, show)
	return cmd
}
