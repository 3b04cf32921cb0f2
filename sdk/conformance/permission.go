package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// decisionDeadline is the time limit of a decision, after which a supervisor treats it as deny.
var decisionDeadline = 5 * time.Second // tests of this package change it

// largeDeadline is the time limit of a decision about the largest message, on a busy machine.
const largeDeadline = time.Minute

// actionKinds are the kinds of actions in the contract, with one extension method.
var actionKinds = []string{
	"fs.read", "fs.write", "fs.list", "terminal.create",
	"tool.read", "tool.edit", "tool.delete", "tool.move", "tool.search", "tool.execute", "tool.think", "tool.fetch",
	"tool.switch_mode", "tool.other", "elicitation", "unknown", "_acme.com/x",
}

// permissionCases do not know the policy of the handler, so none requires a certain verdict.
var permissionCases = []Case{
	{"Decide answers every kind of action", func(ctx context.Context, e *env) {
		for range e.decideAll(ctx, "") { // decideAll requires an answer to each
		}
	}},
	{"Decide answers for unknown kinds of action", func(ctx context.Context, e *env) {
		for _, kind := range []string{"", ".", "tool.", "fs.read.more", "FS.READ", "*", "völlig.neu", strings.Repeat("x", 10_000)} {
			must(e.decide(ctx, "kind "+display(kind), e.action(kind)))
		}
	}},
	{"Decide answers for actions with few fields", func(ctx context.Context, e *env) {
		for what, a := range map[string]*permissionv1.Action{
			"no action":               nil,
			"an empty action":         {},
			"only a kind":             {Kind: "terminal.create"},
			"an empty command":        {Kind: "terminal.create", Command: &permissionv1.Command{}},
			"an empty sub-command":    {Kind: "terminal.create", Command: &permissionv1.Command{SubCommands: []*permissionv1.SubCommand{{}}}},
			"an empty path":           {Kind: "fs.read", Paths: []*permissionv1.PathAccess{{}}},
			"an empty root":           {Kind: "fs.read", Roots: []string{""}, Paths: []*permissionv1.PathAccess{{Path: "/x", ResolvedPath: "/x"}}},
			"nothing but a complaint": {Unparsed: "the agent does not say what it is about to do"},
		} {
			must(e.decide(ctx, what, a))
		}
	}},
	{"Decide answers for the largest actions in time", func(ctx context.Context, e *env) {
		paths := e.action("fs.write")
		paths.Paths = nil
		for i := range 1000 {
			name := fmt.Sprintf("%s/%s/%d", e.dir, strings.Repeat("directory/", 100), i)
			paths.Paths = append(paths.Paths, &permissionv1.PathAccess{Path: name, ResolvedPath: name, InsideRoots: true,
				Access: permissionv1.Access_ACCESS_WRITE})
		}
		commands := e.action("terminal.create")
		commands.Command = &permissionv1.Command{Text: strings.Repeat("ls; ", 1000)}
		for range 1000 {
			commands.Command.SubCommands = append(commands.Command.SubCommands, &permissionv1.SubCommand{Argv: []string{"ls", "-la"}})
		}
		arguments := e.action("terminal.create")
		arguments.Command = &permissionv1.Command{Text: "ls", SubCommands: []*permissionv1.SubCommand{
			{Argv: append([]string{"ls"}, strings.Split(strings.Repeat("argument ", 100_000), " ")...)}}}
		input := e.action("tool.edit")
		input.RawInput = `"` + strings.Repeat("x", 1<<20-2) + `"`
		title := e.action("tool.other")
		title.Title, title.Mode = strings.Repeat("t", 1<<20), strings.Repeat("m", 1<<20)
		for what, a := range map[string]*permissionv1.Action{
			"1000 paths": paths, "1000 sub-commands": commands, "100,000 arguments": arguments, "a raw input of 1 MiB": input,
			"a title and a mode of 1 MiB": title,
		} {
			must(e.decide(ctx, what, a))
		}
	}},
	{"Decide accepts a request of 16 MiB", func(ctx context.Context, e *env) {
		a := e.action("tool.edit")
		a.RawInput = `"` + strings.Repeat("x", largeMessage) + `"`
		must(e.decideWithin(ctx, largeDeadline, "an action of 16 MiB", a))
	}},
	{"Decide answers for unusual paths and commands", func(ctx context.Context, e *env) {
		for _, name := range []string{"relative", "..", "/../..", "//x//", "/a\x00b", "/\n", "/[", "/{a,b", "/*", "/\\", "~", "${root}/x",
			"/e\u0301", "/\u202e/x", "C:\\x", strings.Repeat("/a", 100_000)} {
			a := e.action("fs.write")
			a.Paths = []*permissionv1.PathAccess{{Path: name, ResolvedPath: name, Access: permissionv1.Access_ACCESS_WRITE}}
			a.Roots = append(a.Roots, name)
			must(e.decide(ctx, "the path "+display(name), a))
		}
		for _, line := range []string{"", " ", "#", "a 'b", "$(a", "(((", "a\x00b", "a && ", "<", "'' ''", "[", "*", "\\", "sh -c", "x=1", "> /dev/null",
			"a <<EOF\n", strings.Repeat("$(", 1000)} {
			a := e.action("terminal.create")
			a.Command = command(line)
			a.Command.Cwd, a.Command.Env = "..", []string{"", "=", "A", "=x", "A=\x00"}
			must(e.decide(ctx, "the line "+display(line), a))
		}
	}},
	// The case finds actions that are allowed because of their command or paths: without these they are not allowed. It
	// then marks the command or paths as incomplete. A policy may still allow the whole kind.
	{"Decide does not allow by incomplete commands or paths", func(ctx context.Context, e *env) {
		allowed := func(what string, a *permissionv1.Action) bool {
			return must(e.decide(ctx, what, a)).GetVerdict() == permissionv1.Verdict_VERDICT_ALLOW
		}
		for _, kind := range actionKinds {
			whole := e.action(kind)
			bare := proto.CloneOf(whole)
			bare.Command, bare.Paths = nil, nil
			byContent, byKind := allowed(kind, whole), allowed(kind+" without command and paths", bare)
			if !byContent || byKind {
				continue
			}
			unclear := []*permissionv1.Action{proto.CloneOf(whole)}
			unclear[0].Unparsed = "the agent says more than is understood"
			if whole.GetCommand() != nil {
				half := proto.CloneOf(whole)
				half.Command.Unparsed = "a quote is open"
				unclear = append(unclear, half)
			}
			for _, a := range unclear {
				require(!allowed(kind+" that was not understood", a),
					"%s: allowed for its command or paths, though unparsed says that these may not be all (%q, %q)",
					kind, a.GetUnparsed(), a.GetCommand().GetUnparsed())
			}
		}
	}},
	{"Decide returns the same answer for the same action", func(ctx context.Context, e *env) {
		skipIf(e.Impure, impure)
		for kind, first := range e.decideAll(ctx, "") {
			equalMessages(kind+": the second answer", must(e.decide(ctx, kind, e.action(kind))), first)
		}
	}},
	// The case repeats a request after other requests, and after reports of people's answers.
	{"Decide does not depend on earlier requests", func(ctx context.Context, e *env) {
		skipIf(e.Impure, impure)
		a := e.action("terminal.create")
		first := must(e.decide(ctx, "an action", a))
		for _, kind := range actionKinds {
			other := e.action(kind)
			decision := must(e.decide(ctx, kind, other))
			if err := e.answered(ctx, other, decision, "allow_always"); !errors.Is(err, ErrSkipped) {
				check(err)
			}
		}
		again := must(e.decide(ctx, "the same action", a))
		expect(first.GetVerdict() == again.GetVerdict() && first.GetRule() == again.GetRule(),
			"the answer after other questions", again, first)
	}},
	{"Decide returns a rule and a short reason", func(ctx context.Context, e *env) {
		for kind, d := range e.decideAll(ctx, "") {
			rule, reason := utf8.RuneCountInString(d.GetRule()), utf8.RuneCountInString(d.GetReason())
			require(rule <= 128, "%s: the rule's id has %d characters, want at most 128", kind, rule)
			require(reason <= 4096, "%s: the reason has %d characters, want one or two sentences", kind, reason)
			digest := d.GetPolicyDigest()
			expect(digest == "" || aDigest.MatchString(digest), kind+": the policy's digest", digest,
				`"sha256:" and 64 characters of lower-case hexadecimal`)
		}
	}},
	{"Decide returns a reason for deny", func(ctx context.Context, e *env) {
		for kind, d := range e.decideAll(ctx, "") {
			require(d.GetVerdict() != permissionv1.Verdict_VERDICT_DENY || d.GetReason() != "" || d.GetRule() != "",
				"%s: denied without a reason or a rule: neither a person nor the agent would learn why", kind)
		}
	}},
	{"Decide permits remembered answers only for ask", func(ctx context.Context, e *env) {
		for kind, d := range e.decideAll(ctx, "") {
			require(!d.GetGrantable() || d.GetVerdict() == permissionv1.Verdict_VERDICT_ASK,
				"%s: grantable with %v, want it with ask only", kind, d.GetVerdict())
		}
	}},
	{"Decide returns allow, deny or nothing for an unanswered question", func(ctx context.Context, e *env) {
		final := []permissionv1.Verdict{
			permissionv1.Verdict_VERDICT_UNSPECIFIED, permissionv1.Verdict_VERDICT_ALLOW, permissionv1.Verdict_VERDICT_DENY,
		}
		for kind, d := range e.decideAll(ctx, "") {
			expect(slices.Contains(final, d.GetUnattended()),
				kind+": unattended", d.GetUnattended(), "allow, deny or unspecified")
		}
	}},
	{"Decide answers many callers at once", func(ctx context.Context, e *env) {
		const callers, calls = 64, 10
		want := maps.Collect(e.decideAll(ctx, ""))
		concurrently(callers, func(caller int) error {
			for i := range calls {
				kind := actionKinds[(caller+i)%len(actionKinds)]
				got, err := e.decide(ctx, kind, e.action(kind))
				if err == nil && !e.Impure && got.GetVerdict() != want[kind].GetVerdict() {
					err = differs(kind+": the verdict among many", got.GetVerdict(), want[kind].GetVerdict())
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}},
	// The case cancels small and large calls at once and half way, and requires a timely answer to the next call.
	{"Decide works after cancelled calls", func(ctx context.Context, e *env) {
		large := e.action("tool.edit")
		large.RawInput = `"` + strings.Repeat("x", 1<<20-2) + `"`
		for i := range 60 {
			a := e.action("terminal.create")
			if i%3 == 0 {
				a = large
			}
			cancelled, cancel := context.WithTimeout(ctx, time.Duration(i)*50*time.Microsecond)
			done := begin(func() error {
				_, err := e.permission().Decide(cancelled, &permissionv1.DecideRequest{Action: a})
				return err
			})
			if i%2 == 0 {
				cancel()
			}
			<-done //nolint:errcheck // only the next call matters
			cancel()
		}
		must(e.decide(ctx, "after cancelled calls", e.action("terminal.create")))
	}},
	// The case asks before and after a Configure that must fail, and one that only validates.
	{"rejected settings change no decision", func(ctx context.Context, e *env) {
		skipIf(e.Impure, impure)
		before := maps.Collect(e.decideAll(ctx, ""))
		for _, validateOnly := range []bool{false, true} {
			refusesUnknownSetting(ctx, e, validateOnly)
		}
		for kind, after := range e.decideAll(ctx, " after settings that were refused") {
			equalMessages(kind+": the answer after settings that were refused", after, before[kind])
		}
	}},
	{"Answered is accepted or unimplemented", func(ctx context.Context, e *env) {
		a := e.action("terminal.create")
		decision := must(e.decide(ctx, "an action", a))
		known, unknown := false, error(nil)
		for _, outcome := range []string{"allow_once", "allow_always", "reject_once", "reject_always", "cancelled"} {
			// Twice, because the method is idempotent.
			for range 2 {
				if err := e.answered(ctx, a, decision, outcome); errors.Is(err, ErrSkipped) {
					unknown = err
				} else {
					check(err)
					known = true
				}
			}
		}
		require(!known || unknown == nil, "it knows Answered for some outcomes, and for others returns UNIMPLEMENTED")
		check(unknown)
	}},
}

func (e *env) permission() permissionv1.PermissionServiceClient {
	return permissionv1.NewPermissionServiceClient(e.Conn)
}

// decide requests a decision about an action, and checks the properties of every answer.
func (e *env) decide(ctx context.Context, what string, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	return e.decideWithin(ctx, decisionDeadline, what, a)
}

// decideWithin is decide for an action that takes longer than a supervisor's usual actions.
func (e *env) decideWithin(ctx context.Context, deadline time.Duration, what string, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	d, err := e.permission().Decide(ctx, &permissionv1.DecideRequest{Action: a})
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return nil, fmt.Errorf("%s: no answer within %v", what, deadline)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	switch d.GetVerdict() {
	case permissionv1.Verdict_VERDICT_ALLOW, permissionv1.Verdict_VERDICT_DENY, permissionv1.Verdict_VERDICT_ASK:
		return d, nil
	}
	return nil, differs(what+": the verdict", d.GetVerdict(), "allow, deny or ask")
}

// decideAll requests a decision about an ordinary action of each kind, one after another, and yields kinds and answers.
func (e *env) decideAll(ctx context.Context, when string) iter.Seq2[string, *permissionv1.DecideResponse] {
	return func(yield func(string, *permissionv1.DecideResponse) bool) {
		for _, kind := range actionKinds {
			if !yield(kind, must(e.decide(ctx, kind+when, e.action(kind)))) {
				return
			}
		}
	}
}

// action returns an ordinary action of a kind, complete as a supervisor would send it.
func (e *env) action(kind string) *permissionv1.Action {
	file := e.dir + "/file.txt"
	a := &permissionv1.Action{
		Kind: kind, Agent: "conformance", Mode: "code", SessionId: e.context().GetSessionId(), ToolCallId: "call-1",
		Title: "an action", Door: permissionv1.Door_DOOR_REQUEST, Roots: []string{e.dir}, RawInput: "{}",
	}
	switch kind {
	case "terminal.create", "tool.execute":
		a.Command = command("git status && ls -la | head -5")
	case "tool.think", "tool.switch_mode", "tool.fetch", "tool.other", "elicitation", "unknown":
	default:
		a.Paths = []*permissionv1.PathAccess{{Path: file, ResolvedPath: file, Access: permissionv1.Access_ACCESS_READ, InsideRoots: true}}
	}
	if strings.HasPrefix(kind, "fs.") || strings.HasPrefix(kind, "terminal.") {
		a.Door = permissionv1.Door_DOOR_CALL
	}
	return a
}

func command(line string) *permissionv1.Command {
	subs, unparsed := shell.Parse(line)
	return &permissionv1.Command{Text: line, SubCommands: subs, Unparsed: unparsed}
}

// impure is the reason to skip requirements that not every policy meets.
const impure = "its decisions depend on more than the action"

var aDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (e *env) answered(ctx context.Context, a *permissionv1.Action, d *permissionv1.DecideResponse, outcome string) error {
	_, err := e.permission().Answered(ctx, &permissionv1.AnsweredRequest{Action: a, Decision: d, Outcome: outcome, AnsweredBy: "front"})
	if status.Code(err) == codes.Unimplemented {
		return skip("Answered is not implemented")
	}
	return wrap("answered "+outcome, err)
}
