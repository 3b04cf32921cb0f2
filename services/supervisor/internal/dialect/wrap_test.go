package dialect

import "testing"

func TestUnwrap_RemovesOnlyWrapper(t *testing.T) {
	w := Wrap{Options: []string{"-c", "-l"}, Before: "source * && eval ", After: " && pwd -P >| *"}
	for name, c := range map[string]struct {
		head []string
		line string
		want string // empty: it is not wrapped
	}{
		"a line":                      {[]string{"/bin/zsh", "-c", "-l"}, "source /h/.s/a-1.sh && eval 'ls -l' && pwd -P >| /tmp/x", "ls -l"},
		"a line with a quote":         {[]string{"bash", "-c", "-l"}, `source a && eval 'echo '"'"'x'"'"'' && pwd -P >| /tmp/x`, "echo 'x'"},
		"another form of the quote":   {[]string{"bash", "-c", "-l"}, `source a && eval 'echo it'\''s' && pwd -P >| /tmp/x`, "echo it's"},
		"more behind it":              {[]string{"bash", "-c", "-l"}, "source a && eval 'ls' && pwd -P >| /tmp/x; id", ""},
		"more before it":              {[]string{"bash", "-c", "-l"}, "id; source a && eval 'ls' && pwd -P >| /tmp/x", ""},
		"a file that is a command":    {[]string{"bash", "-c", "-l"}, "source $(id) && eval 'ls' && pwd -P >| /tmp/x", ""},
		"two words":                   {[]string{"bash", "-c", "-l"}, "source a && eval 'ls' 'id' && pwd -P >| /tmp/x", ""},
		"a word that goes on":         {[]string{"bash", "-c", "-l"}, "source a && eval 'ls'$(id) && pwd -P >| /tmp/x", ""},
		"a word without its end":      {[]string{"bash", "-c", "-l"}, "source a && eval 'ls && pwd -P >| /tmp/x", ""},
		"nothing":                     {[]string{"bash", "-c", "-l"}, "source a && eval '' && pwd -P >| /tmp/x", ""},
		"other options":               {[]string{"bash", "-c"}, "source a && eval 'ls' && pwd -P >| /tmp/x", ""},
		"a shell of somebody else's":  {[]string{"/w/bash", "-c", "-l"}, "source a && eval 'ls' && pwd -P >| /tmp/x", ""},
		"another program":             {[]string{"python3", "-c", "-l"}, "source a && eval 'ls' && pwd -P >| /tmp/x", ""},
		"a file that is written over": {[]string{"bash", "-c", "-l"}, "source a && eval 'ls' && pwd -P >| /tmp/x /etc/y", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := w.Unwrap(c.head, c.line, anyFile)
			if ok != (c.want != "") || got != c.want {
				t.Errorf("got %q, %t, want %q", got, ok, c.want)
			}
		})
	}
}

func TestUnwrap_Claude(t *testing.T) {
	line := `source /root/.claude/shell-snapshots/snapshot-bash-1764226000000-ab12cd.sh && eval 'npm test -- --run' \< /dev/null && pwd -P >| /tmp/claude-0a1b-cwd`
	for _, w := range Of("claude-agent-acp").Wraps {
		if inner, ok := w.Unwrap([]string{"/bin/bash", "-c", "-l"}, line, anyFile); ok {
			if inner != "npm test -- --run" {
				t.Errorf("got %q", inner)
			}
			return
		}
	}
	t.Error("it is not taken off")
}

func anyFile(string) bool { return true }
