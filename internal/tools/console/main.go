// Command console bundles the console's page from the sources in one folder to the files that gatewayd embeds in
// another. tsc checks the types before; esbuild ignores them. Equal sources produce equal bytes.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	web := flag.String("web", "", "the `FOLDER` with src and node_modules")
	proto := flag.String("proto", "", "the `FOLDER` of the generated services, in TypeScript")
	out := flag.String("out", "", "the `FOLDER` for the page")
	flag.Parse()
	if err := run(*web, *proto, *out); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(web, proto, out string) error {
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: web,
		EntryPoints:   []string{filepath.Join(web, "src", "main.tsx")},
		Outfile:       filepath.Join(out, "console.js"),
		Bundle:        true, MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true,
		Format: api.FormatESModule, Target: api.ES2022, Platform: api.PlatformBrowser,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		LegalComments: api.LegalCommentsNone, // one file has all licenses
		Metafile:      true, LogLevel: api.LogLevelWarning,
		Plugins: []api.Plugin{services(proto, web)},
	})
	if len(result.Errors) > 0 {
		return errors.New("the page could not be bundled")
	}
	css := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{{InputPath: filepath.Join(web, "src", "all.css"), OutputPath: "console"}},
		Outdir:              out, Bundle: true, MinifySyntax: true, MinifyWhitespace: true, LegalComments: api.LegalCommentsNone,
		Target: api.ES2022, Engines: []api.Engine{{Name: api.EngineChrome, Version: "123"}, {Name: api.EngineFirefox, Version: "120"}, {Name: api.EngineSafari, Version: "17.5"}},
		LogLevel: api.LogLevelWarning,
	})
	if len(css.Errors) > 0 {
		return errors.New("the styles could not be bundled")
	}
	licences, err := licencesOf(web, result.Metafile)
	if err != nil {
		return err
	}
	files := map[string][]byte{"licenses.txt": licences}
	for _, f := range slices.Concat(result.OutputFiles, css.OutputFiles) {
		files[filepath.Base(f.Path)] = f.Contents
	}
	for _, name := range []string{"index.html", "icon.svg"} {
		if files[name], err = os.ReadFile(filepath.Join(web, "src", name)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, contents := range files {
		if err := os.WriteFile(filepath.Join(out, name), contents, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// services resolves imports of the generated services, @acphost/proto/…. They are in another package; their library is
// the page's own, so that it is bundled only once.
func services(dir, web string) api.Plugin {
	dir = filepath.Clean(dir) // in the form of importers' names
	return api.Plugin{Name: "services", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: `^@acphost/proto/`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			return api.OnResolveResult{Path: filepath.Join(dir, strings.TrimPrefix(a.Path, "@acphost/proto/")+"_pb.ts")}, nil
		})
		b.OnResolve(api.OnResolveOptions{Filter: `^@bufbuild/protobuf`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			if !strings.HasPrefix(a.Importer, dir) {
				return api.OnResolveResult{}, nil
			}
			found := b.Resolve(a.Path, api.ResolveOptions{ResolveDir: web, Kind: a.Kind})
			result := api.OnResolveResult{Path: found.Path, Errors: found.Errors}
			if !found.SideEffects {
				// esbuild uses the value of the first importer of a file, and their order is random. Without this line,
				// bundles of equal sources would differ.
				result.SideEffects = api.SideEffectsFalse
			}
			return result, nil
		})
	}}
}

// licencesOf returns the licenses of the packages in the bundle.
func licencesOf(web, metafile string) ([]byte, error) {
	var meta struct {
		Inputs map[string]any `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}
	var packages []string
	for input := range meta.Inputs {
		_, rest, ok := strings.Cut(filepath.ToSlash(input), "node_modules/")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		name := parts[0]
		if strings.HasPrefix(name, "@") {
			name += "/" + parts[1]
		}
		packages = append(packages, name)
	}
	slices.Sort(packages)
	var text strings.Builder
	text.WriteString("The console has parts of these packages.\n")
	for _, name := range slices.Compact(packages) {
		dir := filepath.Join(web, "node_modules", filepath.FromSlash(name))
		about, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err != nil {
			return nil, err
		}
		var p struct{ Version, License string }
		if err := json.Unmarshal(about, &p); err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "\n==== %s %s, %s\n\n", name, p.Version, p.License)
		licence, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
		switch {
		case err == nil:
			text.WriteString(strings.TrimSpace(string(licence)) + "\n")
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	return []byte(text.String()), nil
}
