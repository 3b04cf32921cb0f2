package shell_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestFromArgv_KeepsWords(t *testing.T) {
	tests := map[string]struct {
		argv []string
		want string
	}{
		"nothing":                          {nil, ""},
		"a command":                        {[]string{"git", "status"}, "git|status"},
		"characters that a shell expands":  {[]string{"ls", "*", "$x", "~", "{a,b}", "a;rm x"}, "ls|*|$x|~|{a,b}|a;rm x"},
		"a line as a program's name":       {[]string{"rm x"}, "rm x"},
		"a shell":                          {[]string{"bash", "-lc", "rm x && ls"}, "bash -c: rm|x\nbash -c: ls"},
		"wrappers":                         {[]string{"env", "A=1", "timeout", "5", "rm", "x"}, "env, timeout: A=1 rm|x"},
		"an assignment that is no wrapper": {[]string{"A=1", "rm"}, "A=1|rm"},
		"an empty program":                 {[]string{""}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			subs, unparsed := shell.FromArgv(tt.argv)
			if got := show(subs); got != tt.want || unparsed != "" {
				t.Errorf("got %q:\n%s\nwant:\n%s", unparsed, got, tt.want)
			}
		})
	}
}

func TestFromArgv_ReportsUnseenParts(t *testing.T) {
	for name, argv := range map[string][]string{
		"a shell that reads its input": {"sh"},
		"a line that is broken":        {"sh", "-c", "a &&"},
		"text that is not UTF-8":       {"a", "\xff"},
		"arguments that are too long":  {"a", strings.Repeat("x", shell.MaxLine+1)},
		"an unknown option":            {"sudo", "--new-option", "rm"},
	} {
		if subs, unparsed := shell.FromArgv(argv); unparsed == "" {
			t.Errorf("%s: taken for fully seen:\n%s", name, show(subs))
		}
	}
}

func TestQuote_QuotesExpansions(t *testing.T) {
	tests := map[string][]string{
		"git status":           {"git", "status"},
		`a '' 'b c' 'd'\''e'`:  {"a", "", "b c", "d'e"},
		`'*' '$x' '~' '{a,b}'`: {"*", "$x", "~", "{a,b}"},
		`'A=1' 'if' '#'`:       {"A=1", "if", "#"},
		"'a\nb'":               {"a\nb"},
		"":                     {},
	}
	for want, argv := range tests {
		if got := shell.Quote(argv); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzQuote_RoundTripsThroughParse also checks that executing a command has the same result as a shell that reads the
// quoted command.
func FuzzQuote_RoundTripsThroughParse(f *testing.F) {
	for _, seed := range []string{"git\x1fstatus", "a\x1f\x1fb c", "sh\x1f-c\x1frm x; $(ls)", "A=1\x1fb", "if", "[[\x1f&&", "{\x1f}",
		"a'b\x1f\"", "!\x1fa", "time\x1fls", "env\x1f-S\x1fa b", "\\", "a\nb", "find\x1f.\x1f-exec\x1frm\x1f{}\x1f;",
		"export\x1fA=~", "test\x1fa[1]", "bash\x1f-c\x1f[[ a ]]", "-\x1f--", "declare\x1f-x\x1fB=1", "let\x1fx=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		argv := strings.Split(joined, "\x1f")
		if strings.ContainsAny(joined, "\x00\r") || joined == "" {
			t.Skip("no shell has such words")
		}
		line := shell.Quote(argv)
		parsed, unparsed := shell.Parse(line)
		direct, directUnparsed := shell.FromArgv(argv)
		if unparsed != "" || argv[0] == "" {
			return // a line may be harder to read: "let" is a keyword there
		}
		if directUnparsed != "" {
			t.Fatalf("%q: fully seen as a line, but executed %q", argv, directUnparsed)
		}
		if !slices.EqualFunc(parsed, direct, func(a, b *permissionv1.SubCommand) bool { return proto.Equal(a, b) }) {
			t.Fatalf("%q\nas a line:\n%s\nexecuted:\n%s", argv, show(parsed), show(direct))
		}
	})
}

// FuzzParse parses arbitrary lines. Nothing may panic, and the result must fit into a protobuf message.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a", "a && b | c; d\ne", "sh -c 'rm \"$x\"' > f 2>&1", "for i in a b; do c $(d `e`); done",
		"f() { a; }; f", "cat <<EOF\n$(a)\nEOF", "a=(1 2) b[1]=2 declare -A x=([a]=b)", "case x in *) ;; esac", "$'\\x6d\\u00e9\\777'",
		"env -S 'a b' c", "find . -exec a {} +", "xargs -i a {}", "trap 'a' 1", "((a++))", "let a=1", "[[ a =~ b ]]", "a ${b[@]//c/$(d)}",
		"{a,{b,c}}", "a >&$b", "{fd}>x", "coproc x { a; }", "select x; do a; done", "time -p { a; }", "<<<a bash", "eval eval eval a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		subs, _ := shell.Parse(line)
		for _, sub := range subs {
			if _, err := proto.Marshal(sub); err != nil {
				t.Fatalf("%q gives what cannot be sent: %v", line, err)
			}
		}
	})
}
