package dialect

import "testing"

func TestOnlyJustTheWrappingIsTakenOff(t *testing.T) {
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
			got, ok := w.Unwrap(c.head, c.line)
			if ok != (c.want != "") || got != c.want {
				t.Errorf("got %q, %t, want %q", got, ok, c.want)
			}
		})
	}
}
