package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/audit"
	"github.com/drainproof/drainproof/internal/audit/fix"
	"github.com/drainproof/drainproof/internal/fault"
)

// fixOptions say what becomes of the changes: a diff unless one of the two is set.
type fixOptions struct {
	dryRun, write bool
	overlay       string
}

func (a *app) auditFixCommand() *cobra.Command {
	var in auditInput
	var o fixOptions
	cmd := &cobra.Command{
		Use:   "fix",
		Short: "Repair what can be repaired without knowing the application",
		Long: `Audits, and changes what can be changed without knowing the application: the preStop sleep that the
slowest path needs, the grace period that goes with it, a missing disruption budget, a rollout that takes
all Pods at once. What it cannot change it names, with the reason. Findings that are suppressed are left alone.

Without --write or --overlay it only prints a diff. --write edits the files in place and keeps every comment,
the order and the quotes. --overlay writes a kustomize overlay beside them and touches none.`,
		Example: `  drainproof audit fix -f manifests/                      # a diff, nothing is written
  drainproof audit fix -f manifests/ --write
  drainproof audit fix -k overlays/production --overlay overlays/production-fixed
  drainproof audit fix -f web.yaml --kubernetes v1.28     # an exec sleep where preStop.sleep is not there yet`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.check(); err != nil {
				return err
			}
			if err := o.check(&in); err != nil {
				return err
			}
			c, err := readAuditConfig(in.config)
			if err != nil {
				return err
			}
			return a.auditFix(cmd.Context(), &in, c, o)
		},
	}
	in.bindFiles(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "print a diff and write nothing (the default)")
	f.BoolVar(&o.write, "write", false, "edit the files in place")
	f.StringVar(&o.overlay, "overlay", "", "write a kustomize overlay into this new folder")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "write", "overlay")
	return cmd
}

func (o fixOptions) check(in *auditInput) error {
	switch {
	case slices.Contains(in.files, "-"):
		return fault.Usagef("give files", "what came from stdin cannot be edited")
	case in.kustomize != "" && o.write:
		return fault.Usagef("use --overlay DIR, or -f on the sources", "what kustomize built cannot be edited in place")
	}
	return nil
}

func (a *app) auditFix(ctx context.Context, in *auditInput, c audit.Config, o fixOptions) error {
	r, m, err := a.audit(ctx, in, c, "")
	if err != nil {
		return err
	}
	server, err := audit.ParseServer(r.Kubernetes)
	if err != nil {
		return err
	}
	changes := fix.Plan(m, r.Findings, fix.Options{Server: server.Minor, Floors: c.Floored(in.floors)})
	if o.overlay != "" {
		return a.fixOverlay(in, changes, o.overlay)
	}
	files := map[string][]byte{}
	for _, ch := range changes {
		if ch.File == "" || ch.Skipped != "" || files[ch.File] != nil || in.kustomize != "" {
			continue
		}
		if files[ch.File], err = os.ReadFile(ch.File); err != nil {
			return fault.Usagef("check the path", "%s cannot be read again: %v", ch.File, err)
		}
	}
	if in.kustomize != "" {
		a.describeChanges(changes)
		return fault.Usagef("add --overlay DIR", "what kustomize built has no file that a diff could be of")
	}
	after, err := fix.Apply(files, changes)
	refused, ok := errors.AsType[*fix.Refused](err)
	if err != nil && !ok {
		return err
	}
	if ok {
		changes = replaceRefused(changes, refused.Changes)
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if !o.write {
			if _, err := a.Out.Write(fix.Diff(filepath.ToSlash(name), files[name], after[name])); err != nil {
				return err
			}
			continue
		}
		if err := replaceFile(name, after[name]); err != nil {
			return err
		}
		a.progress("wrote %s", harmless(name))
	}
	a.describeChanges(changes)
	if !o.write && len(after) > 0 {
		a.progress("nothing was written: --write edits the files, --overlay DIR leaves them alone")
	}
	return nil
}

// replaceRefused puts the refused changes, with their reasons, in the place of the planned ones.
func replaceRefused(all, refused []fix.Change) []fix.Change {
	key := func(c fix.Change) string { return fmt.Sprint(c.File, c.Object, c.Path, c.What) }
	out := slices.Clone(all)
	for i, c := range out {
		for _, r := range refused {
			if key(c) == key(r) {
				out[i] = r
			}
		}
	}
	return out
}

// describeChanges says on stderr what is changed and what is left to a person.
func (a *app) describeChanges(changes []fix.Change) {
	var left []fix.Change
	for _, c := range changes {
		if c.Skipped != "" {
			left = append(left, c)
			continue
		}
		a.progress("%s: %s (%s)", objectWords(c), harmless(c.What), strings.Join(c.Why, ", "))
	}
	if len(left) > 0 {
		a.progress("left to you:")
	}
	for _, c := range left {
		a.progress("%s: %s: %s", objectWords(c), strings.Join(c.Why, ", "), harmless(c.Skipped))
	}
	if len(left) == len(changes) {
		a.progress("there is nothing to fix here without knowing the application")
	}
}

func objectWords(c fix.Change) string {
	name := c.Object.Name
	if c.Object.Namespace != "" {
		name = c.Object.Namespace + "/" + name
	}
	return harmless(c.Object.Kind + " " + name)
}

// harmless keeps a manifest's text from steering the terminal.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
}

func (a *app) fixOverlay(in *auditInput, changes []fix.Change, dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fault.Usagef("choose a new folder, or empty this one", "folder %s is not empty", dir)
	}
	resources := fix.Resources(in.read, dir)
	if in.kustomize != "" {
		to, err := filepath.Rel(dir, in.kustomize)
		if err != nil {
			return fault.Usagef("give both as relative or both as absolute paths", "%s has no path to %s: %v", dir, in.kustomize, err)
		}
		resources = []string{filepath.ToSlash(to)}
	}
	if !slices.ContainsFunc(changes, func(c fix.Change) bool { return c.Skipped == "" }) {
		a.describeChanges(changes)
		return nil
	}
	files := fix.Overlay(changes, resources)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.Usagef("choose another folder", "folder %s cannot be made: %v", dir, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := replaceFile(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
	}
	a.describeChanges(changes)
	a.progress("build it with: kubectl kustomize %s%s", outside(resources), dir)
	return nil
}

// outside is the flag that kustomize wants for single files outside of the overlay's own folder.
func outside(resources []string) string {
	for _, r := range resources {
		if strings.HasPrefix(r, "../") && filepath.Ext(r) != "" || filepath.IsAbs(r) {
			return "--load-restrictor LoadRestrictionsNone "
		}
	}
	return ""
}

// replaceFile writes a file whole or not at all; an existing one keeps its mode, and a link its target.
func replaceFile(name string, text []byte) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	mode := fs.FileMode(0o644)
	if st, err := os.Stat(name); err == nil {
		mode = st.Mode().Perm()
	}
	write := func() error {
		f, err := os.CreateTemp(filepath.Dir(name), ".drainproof-*")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		_, err = f.Write(text)
		err = cmp.Or(err, f.Chmod(mode), f.Sync(), f.Close())
		if err != nil {
			return err
		}
		return os.Rename(f.Name(), name)
	}
	if err := write(); err != nil {
		return fault.Usagef("make room or change the rights, then run it again: what was written so far stays", "%s cannot be written: %v", name, err)
	}
	return nil
}
