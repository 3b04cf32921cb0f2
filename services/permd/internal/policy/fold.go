package policy

import foldpkg "github.com/acphost/acphost/internal/fold"

// fold returns a path, or a glob, in the form that deny and ask rules compare.
func fold(s string) string { return foldpkg.Path(s) }
