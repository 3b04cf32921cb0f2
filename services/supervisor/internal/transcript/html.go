package transcript

import (
	"html/template"
	"io"
	"time"
)

// HTML writes a document as one page that loads nothing and runs nothing.
func HTML(w io.Writer, d *Document) error { return page.Execute(w, d) }

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"line": line, "text": Harmless, "output": output, "changes": Changes,
	"at":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"open": func(text string) bool { return len(text) < 4<<10 },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Session {{line .Header.Session}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c; background: #fff; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
article { border-left: 3px solid #ddd; margin: 1rem 0; padding: .1rem 1rem; unicode-bidi: isolate; overflow-wrap: anywhere; }
article.user { border-color: #2f6fde; } article.agent { border-color: #2a8f4d; } article.failed, article.lost { border-color: #c33; }
header { font-size: .8rem; color: #666; }
pre { white-space: pre-wrap; font: 13px/1.45 ui-monospace, monospace; margin: .3rem 0; overflow-wrap: anywhere; }
pre.say { font: inherit; } pre.box { background: #f5f5f5; padding: .5rem; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #161616; } article { border-color: #444; } pre.box { background: #222; } }
</style>
</head>
<body>
<h1>Session {{line .Header.Session}}</h1>
<p>Agent {{line .Header.Agent}}, in {{line .Header.Cwd}}</p>
{{range .Items}}<article class="{{.Kind}}{{if eq .Status "failed"}} failed{{end}}">
<header>{{.Kind}}{{with .Tool}} · {{line .}}{{end}}{{with .Status}} · {{line .}}{{end}} · <time>{{at .Time}}</time></header>
{{with .Title}}<strong>{{line .}}</strong>
{{end}}{{range .Diffs}}<details{{if open (changes .)}} open{{end}}><summary>{{line .Path}} (+{{.Added}} -{{.Removed}})</summary><pre class="box">{{text (changes .)}}</pre></details>
{{end}}{{if .Text}}{{if eq .Kind "terminal"}}<pre class="box">{{output .Text}}</pre>{{else if eq .Kind "tool"}}<details{{if open .Text}} open{{end}}><summary>content</summary><pre class="box">{{text .Text}}</pre></details>{{else}}<pre class="say">{{text .Text}}</pre>{{end}}
{{end}}</article>
{{end}}</body>
</html>
`))
