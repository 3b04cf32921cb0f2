package sandbox

import "testing"

func TestLists_DecideByLiteralPaths(t *testing.T) {
	l := Lists{Write: []string{"/work"}, DenyWrite: []string{"/work/a/.env"}, DenyExecute: []string{"/usr/bin/curl", "/opt"}}
	for name, c := range map[string]struct {
		event Event
		want  bool
	}{
		"a file in a folder that may be changed":       {Event{Operation: Write, Path: "/work/x"}, true},
		"a folder that begins with the same letters":   {Event{Operation: Write, Path: "/workshop/x"}, false},
		"a file that is denied":                        {Event{Operation: Write, Path: "/work/a/.env"}, false},
		"another name for a folder above a denied one": {Event{Operation: Move, Path: "/work/a"}, false},
		"another name for a folder beside it":          {Event{Operation: Move, Path: "/work/b"}, true},
		"a terminal":                                   {Event{Operation: Write, Path: "/dev/pts/3"}, true},
		"another file in place of a device":            {Event{Operation: Move, Path: "/dev/null"}, false},
		"the removal of a device":                      {Event{Operation: Write, Path: "/dev/null", Leaves: LeavesNothing}, false},
		"other permissions of a device":                {Event{Operation: Write, Path: "/dev/null", Leaves: LeavesContent}, false},
		"another name for a device":                    {Event{Operation: Write, Path: "/dev/null", Leaves: LeavesLinked}, false},
		"a program that nobody names":                  {Event{Operation: Execute, Path: "/usr/bin/git"}, true},
		"a program that is denied":                     {Event{Operation: Execute, Path: "/usr/bin/curl"}, false},
		"a program in a denied folder":                 {Event{Operation: Execute, Path: "/opt/x/y"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := l.Allows(c.event); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
