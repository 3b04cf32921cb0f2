package journal

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// messages are the frames of a session's file.
func messages(t *testing.T, dir, session string) []string {
	t.Helper()
	var all []string
	for _, e := range entries(t, dir, session)[1:] {
		all = append(all, string(e.Message()))
	}
	return all
}

func TestJournal_RecordsSessionOnceOpen(t *testing.T) {
	const (
		load   = `{"id":1,"method":"session/load","params":{"sessionId":"x","cwd":"/w"}}`
		resume = `{"id":2,"method":"session/resume","params":{"sessionId":"x","cwd":"/w"}}`
		cancel = `{"method":"$/cancel_request","params":{"requestId":1}}`
		prompt = `{"id":3,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}`
		no     = `{"id":1,"error":{"code":-32002,"message":"there is no such session"}}`
		no2    = `{"id":2,"error":{"code":-32601,"message":"not known"}}`
		yes    = `{"id":1,"result":null}`
		yes2   = `{"id":2,"result":{}}`
	)
	heard := update("x", "before")
	for name, c := range map[string]struct {
		lines         []string // those of the agent's begin with "<"
		session, link []string
	}{
		"refused":                          {[]string{load, "<" + no}, nil, []string{load, no}},
		"refused twice":                    {[]string{load, "<" + no, resume, "<" + no2}, nil, []string{load, no, resume, no2}},
		"asked twice at once, and refused": {[]string{load, resume, "<" + no, "<" + no2}, nil, []string{load, no, resume, no2}},
		"refused, then resumed":            {[]string{load, "<" + no, resume, "<" + yes2}, []string{resume, yes2}, []string{load, no}},
		"asked twice, opened once":         {[]string{load, resume, "<" + yes2, "<" + no}, []string{resume, yes2, load, no}, nil},
		"loaded":                           {[]string{load, "<" + heard, "<" + yes, prompt}, []string{load, heard, yes, prompt}, nil},
		"loaded without a word":            {[]string{load, "<" + yes}, []string{load, yes}, nil},
		"refused after it was begun":       {[]string{load, "<" + heard, "<" + no}, []string{load, heard, no}, nil},
		"prompted before the answer":       {[]string{load, prompt, "<" + yes}, []string{load, prompt, yes}, nil},
		"refused again once it was open":   {[]string{load, "<" + yes, resume, "<" + no2}, []string{load, yes, resume, no2}, nil},
		"given up":                         {[]string{load, cancel, "<" + no}, nil, []string{cancel, load, no}},
		"given up late":                    {[]string{load, "<" + heard, cancel, "<" + no}, []string{load, heard, cancel, no}, nil},
		"never answered":                   {[]string{load}, nil, []string{load}},
		"asked with an id used again":      {[]string{load, load, "<" + yes}, []string{load, yes}, []string{load}},
		"begun anew meanwhile":             {[]string{load, `{"id":0,"method":"initialize"}`}, nil, []string{load, `{"id":0,"method":"initialize"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			j := opened(t, Options{Content: true})
			for _, line := range c.lines {
				if own, ok := strings.CutPrefix(line, "<"); ok {
					send(j, frame.AgentToClient, own)
				} else {
					send(j, frame.ClientToAgent, line)
				}
			}
			closed(t, j)
			all, err := Files(j.opts.Dir, false)
			if err != nil || len(all) != min(len(c.session), 1) {
				t.Fatalf("there are files of %d sessions (%v), want %d", len(all), err, min(len(c.session), 1))
			}
			parts, err := Parts(j.opts.Dir, "x")
			if err != nil || len(parts) != len(all) {
				t.Errorf("the session has %d parts (%v)", len(parts), err)
			}
			if c.session != nil {
				if got := messages(t, j.opts.Dir, "x"); !slices.Equal(got, c.session) {
					t.Errorf("the session has\n%s", strings.Join(got, "\n"))
				}
				if cwd := parts[0].Header.Cwd; cwd != "/w" {
					t.Errorf("its folder is %q", cwd)
				}
			}
			links, err := filepath.Glob(filepath.Join(j.opts.Dir, "*", linkName+"*"))
			if err != nil || len(links) != min(len(c.link), 1) {
				t.Fatalf("the files of no session are %q (%v)", links, err)
			}
			if c.link != nil {
				if got := messages(t, j.opts.Dir, ""); !slices.Equal(got, c.link) {
					t.Errorf("of no session are\n%s", strings.Join(got, "\n"))
				}
			}
		})
	}
}
