package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// isOwn reports whether a module is one of the project's.
func isOwn(module string) bool {
	const root = "github.com/acphost/acphost"
	return module == root || strings.HasPrefix(module, root+"/")
}

// contents returns the bill of materials of the programs in CycloneDX: each program, and the modules in it, as the
// linker recorded them.
func (t tree) contents(s source) ([]byte, error) {
	libraries := map[string]cdx.Component{}
	var apps []cdx.Component
	var needs []cdx.Dependency
	for _, f := range t.files {
		info, err := buildinfo.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		name := path.Base(f.name)
		app := cdx.Component{
			BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: s.version,
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(text))}},
			Licenses: licenses("Apache-2.0"),
		}
		apps = append(apps, app)
		deps := append([]*debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}, &info.Main}, info.Deps...)
		var refs []string
		for _, m := range deps {
			library, err := s.library(m)
			if err != nil {
				return nil, err
			}
			libraries[library.BOMRef] = library
			refs = append(refs, library.BOMRef)
		}
		slices.Sort(refs)
		refs = slices.Compact(refs)
		needs = append(needs, cdx.Dependency{Ref: name, Dependencies: &refs})
	}
	components := append(apps, slices.SortedFunc(maps.Values(libraries), func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })...)
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: s.time.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: s.name(t.platform), Type: cdx.ComponentTypeApplication, Name: "acphost", Version: s.version,
			Licenses:   licenses("Apache-2.0"),
			Properties: &[]cdx.Property{{Name: "acphost:platform", Value: t.platform.String()}, {Name: "acphost:commit", Value: s.commit}},
		},
	}
	bom.Components, bom.Dependencies = &components, &needs
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

// library returns a module as a component. A module of the workspace has no version: it gets the release's. A module
// whose license is unknown is an error.
func (s source) library(m *debug.Module) (cdx.Component, error) {
	own := isOwn(m.Path)
	if m.Replace != nil && !own {
		m = m.Replace
	}
	version := m.Version
	if own {
		version = s.version
	}
	ids := s.licenceOf[m.Path]
	if own {
		ids = []string{"Apache-2.0"}
	}
	if len(ids) == 0 {
		return cdx.Component{}, fmt.Errorf("the licence of %s %s is not recognized: see its LICENSE, and nameLicences", m.Path, version)
	}
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: version, PackageURL: url, Licenses: licenses(ids...)}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c, nil
}

// licenses returns the licenses of a component by their SPDX identifiers.
func licenses(ids ...string) *cdx.Licenses {
	var all cdx.Licenses
	for _, id := range ids {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &all
}
