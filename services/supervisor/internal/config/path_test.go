package config

import "testing"

func TestPath_FormatsAsInFile(t *testing.T) {
	for _, c := range []struct {
		got  path
		want string
	}{
		{path("agent").to("quirks", 0), "agent.quirks[0]"},
		{path("routes").to("fs/*"), `routes["fs/*"]`},
		{path("handlers").to("a-1", "tls", "key"), "handlers.a-1.tls.key"},
		{path("handlers").to("agents", "env", "command"), "handlers.agents.env.command"}, // names of lists, and none here
	} {
		if string(c.got) != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
