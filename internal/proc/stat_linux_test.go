package proc

import (
	"os"
	"strings"
	"testing"
)

const rest = " 77 70 60 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 3 0 176859 3133440 414 18446744073709551615"

func TestParseStat_ReadsMisleadingNames(t *testing.T) {
	for name, comm := range map[string]string{
		"a plain name":                  "cat",
		"spaces":                        "tmux: server",
		"parentheses":                   "(sd-pam)",
		"an unbalanced parenthesis":     "a) Z 1 1 1 (",
		"the rest of a line in a name":  "x) R 1 1 1 0 -1 0",
		"a newline and a closing paren": "x\n) S 1",
		"nothing":                       "",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte("42 (" + comm + ") S" + rest + "\n"))
			want := Process{PID: 42, Parent: 77, Session: 60, state: 'S', Threads: 3, Start: 176859}
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestParseStat_RejectsOtherLines(t *testing.T) {
	for name, line := range map[string]string{
		"nothing":            "",
		"no name":            "42 S" + rest,
		"reversed brackets":  "42 )x( S" + rest,
		"too few fields":     "42 (x) S 1 2 3",
		"a pid of letters":   "x (x) S" + rest,
		"a state of letters": "42 (x) SS" + rest,
		"a parent of words":  "42 (x) S" + strings.Replace(rest, "77", "me", 1),
		"a start before":     "42 (x) S" + strings.Replace(rest, "176859", "-1", 1),
	} {
		if got, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestParseStat_ReadsThisProcess(t *testing.T) {
	got, err := Stat(os.Getpid())
	if err != nil || got.PID != os.Getpid() || got.Parent != os.Getppid() || !got.Live() || got.Start == 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDescendants_OmitOlderChildOfReusedPID(t *testing.T) {
	procs := map[int]Process{
		10: {PID: 10, Parent: 1, state: 'S', Start: 5},
		11: {PID: 11, Parent: 10, state: 'S', Start: 6},
		12: {PID: 12, Parent: 11, state: 'S', Start: 6},
		13: {PID: 13, Parent: 11, state: 'S', Start: 2}, // listed under 11 before that pid was used again
		14: {PID: 14, Parent: 10, state: 'Z', Threads: 1, Start: 7},
		15: {PID: 15, Parent: 15, state: 'S', Start: 7},
	}
	got := descendants(procs, 10)
	if len(got) != 2 || got[0] != 11 || got[1] != 12 {
		t.Errorf("descendants = %v, want [11 12]", got)
	}
	if got := descendants(procs, 15); len(got) != 0 {
		t.Errorf("descendants of its own parent = %v, want none", got)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (cat) S" + rest))
	f.Add([]byte("42 (a) b (c) S" + rest))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, line []byte) {
		if s, err := parseStat(line); err != nil && s != (Process{}) {
			t.Errorf("an error with a result: %+v, %v", s, err)
		}
	})
}
