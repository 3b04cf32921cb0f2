package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// decisionDeadline is how long a supervisor waits for a decision before it counts as deny.
const decisionDeadline = 5 * time.Second

// actionKinds are the kinds of actions that the contract names, one of an extension among them.
var actionKinds = []string{
	"fs.read", "fs.write", "fs.list", "terminal.create",
	"tool.read", "tool.edit", "tool.delete", "tool.move", "tool.search", "tool.execute", "tool.think", "tool.fetch",
	"tool.switch_mode", "tool.other", "elicitation", "unknown", "_acme.com/x",
}

// permissionCases do not know the policy of the handler, so none of them wants a certain verdict.
func permissionCases() []Case {
	return kind(KindPermission, []demand{
		{Name: "Decide answers every kind of action", Run: decidesEveryKind},
		{Name: "Decide answers kinds that nobody has heard of", Run: decidesUnknownKinds},
		{Name: "Decide answers about actions with little in them", Run: decidesSparseActions},
		{Name: "Decide answers about the largest actions in time", Run: decidesLargeActions},
		{Name: "Decide takes a request of 16 MiB", Run: decidesHugeRequests},
		{Name: "Decide answers about odd paths and commands", Run: decidesOddActions},
		{Name: "Decide allows nothing by what was not understood", Run: allowsOnlyWhatIsUnderstood},
		{Name: "Decide says the same of the same action", Run: decisionsAreRepeatable},
		{Name: "Decide does not depend on what was asked before", Run: decisionsAreIndependent},
		{Name: "Decide names its rule and gives its reason in short", Run: decisionsAreExplained},
		{Name: "Decide says why it denies", Run: denialsAreExplained},
		{Name: "Decide lets remembered answers count only where it asks", Run: grantableMeansAsk},
		{Name: "Decide says allow, deny or nothing for a question that nobody answers", Run: unattendedIsFinal},
		{Name: "Decide answers many callers at once", Run: decidesConcurrently},
		{Name: "Decide outlives calls that are cancelled", Run: decisionsSurviveCancelling},
		{Name: "settings that are refused change no decision", Run: refusedSettingsChangeNothing},
		{Name: "Answered is taken, or not known", Run: answeredIsOptional},
	})
}

func (e *Env) permission() permissionv1.PermissionServiceClient {
	return permissionv1.NewPermissionServiceClient(e.Conn)
}

// decide asks about an action and checks what holds of every answer.
func (e *Env) decide(ctx context.Context, what string, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, decisionDeadline)
	defer cancel()
	d, err := e.permission().Decide(ctx, &permissionv1.DecideRequest{Action: a})
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return nil, fmt.Errorf("%s: no answer within %v", what, decisionDeadline)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	switch d.GetVerdict() {
	case permissionv1.Verdict_VERDICT_ALLOW, permissionv1.Verdict_VERDICT_DENY, permissionv1.Verdict_VERDICT_ASK:
		return d, nil
	}
	return nil, differs(what+": the verdict", d.GetVerdict(), "allow, deny or ask")
}

// action is an ordinary action of a kind, complete as a supervisor would send it.
func (e *Env) action(kind string) *permissionv1.Action {
	file := e.Dir + "/file.txt"
	a := &permissionv1.Action{
		Kind: kind, Agent: "conformance", Mode: "code", SessionId: e.Context().GetSessionId(), ToolCallId: "call-1",
		Title: "an action", Door: permissionv1.Door_DOOR_REQUEST, Roots: []string{e.Dir}, RawInput: "{}",
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

func decidesEveryKind(ctx context.Context, e *Env) {
	for _, kind := range actionKinds {
		must(e.decide(ctx, kind, e.action(kind)))
	}
}

func decidesUnknownKinds(ctx context.Context, e *Env) {
	for _, kind := range []string{"", ".", "tool.", "fs.read.more", "FS.READ", "*", "völlig.neu", strings.Repeat("x", 10_000)} {
		must(e.decide(ctx, "kind "+shown(kind), e.action(kind)))
	}
}

func decidesSparseActions(ctx context.Context, e *Env) {
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
}

func decidesLargeActions(ctx context.Context, e *Env) {
	paths := e.action("fs.write")
	paths.Paths = nil
	for i := range 1000 {
		name := fmt.Sprintf("%s/%s/%d", e.Dir, strings.Repeat("directory/", 100), i)
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
}

func decidesHugeRequests(ctx context.Context, e *Env) {
	a := e.action("tool.edit")
	a.RawInput = `"` + strings.Repeat("x", largeMessage) + `"`
	_, err := e.decide(ctx, "an action of 16 MiB", a)
	check(err)
}

func decidesOddActions(ctx context.Context, e *Env) {
	for _, name := range []string{"relative", "..", "/../..", "//x//", "/a\x00b", "/\n", "/[", "/{a,b", "/*", "/\\", "~", "${root}/x",
		"/e\u0301", "/\u202e/x", "C:\\x", strings.Repeat("/a", 100_000)} {
		a := e.action("fs.write")
		a.Paths = []*permissionv1.PathAccess{{Path: name, ResolvedPath: name, Access: permissionv1.Access_ACCESS_WRITE}}
		a.Roots = append(a.Roots, name)
		must(e.decide(ctx, "the path "+shown(name), a))
	}
	for _, line := range []string{"", " ", "#", "a 'b", "$(a", "(((", "a\x00b", "a && ", "<", "'' ''", "[", "*", "\\", "sh -c", "x=1", "> /dev/null",
		"a <<EOF\n", strings.Repeat("$(", 1000)} {
		a := e.action("terminal.create")
		a.Command = command(line)
		a.Command.Cwd, a.Command.Env = "..", []string{"", "=", "A", "=x", "A=\x00"}
		must(e.decide(ctx, "the line "+shown(line), a))
	}
}

// errImpure skips what cannot be demanded of every policy.
var errImpure = skip("its decisions depend on more than the action")

func decisionsAreRepeatable(ctx context.Context, e *Env) {
	if e.Impure {
		fail(errImpure)
	}
	for _, kind := range actionKinds {
		first := must(e.decide(ctx, kind, e.action(kind)))
		again := must(e.decide(ctx, kind, e.action(kind)))
		check(alike(kind+": the second answer", again, first))
	}
}

// decisionsAreIndependent asks the same again after other questions, and after telling what people answered.
func decisionsAreIndependent(ctx context.Context, e *Env) {
	if e.Impure {
		fail(errImpure)
	}
	a := e.action("terminal.create")
	first := must(e.decide(ctx, "an action", a))
	for _, kind := range actionKinds {
		other := e.action(kind)
		decision := must(e.decide(ctx, kind, other))
		if err := e.answered(ctx, other, decision, "allow_always"); err != nil && !errors.Is(err, ErrSkipped) {
			fail(err)
		}
	}
	again := must(e.decide(ctx, "the same action", a))
	if first.GetVerdict() != again.GetVerdict() || first.GetRule() != again.GetRule() {
		fail(differs("the answer after other questions", again, first))
	}
}

func decisionsAreExplained(ctx context.Context, e *Env) {
	for _, kind := range actionKinds {
		d := must(e.decide(ctx, kind, e.action(kind)))
		if n := utf8.RuneCountInString(d.GetRule()); n > 128 {
			fail(fmt.Errorf("%s: the rule's id has %d characters, want at most 128", kind, n))
		}
		if n := utf8.RuneCountInString(d.GetReason()); n > 4096 {
			fail(fmt.Errorf("%s: the reason has %d characters, want one or two sentences", kind, n))
		}
		if digest := d.GetPolicyDigest(); digest != "" && !isDigest(digest) {
			fail(differs(kind+": the policy's digest", digest, `"sha256:" and 64 characters of lower-case hexadecimal`))
		}
	}
}

func denialsAreExplained(ctx context.Context, e *Env) {
	for _, kind := range actionKinds {
		d := must(e.decide(ctx, kind, e.action(kind)))
		if d.GetVerdict() == permissionv1.Verdict_VERDICT_DENY && d.GetReason() == "" && d.GetRule() == "" {
			fail(fmt.Errorf("%s: denied without a reason or a rule: neither a person nor the agent would learn why", kind))
		}
	}
}

func unattendedIsFinal(ctx context.Context, e *Env) {
	for _, kind := range actionKinds {
		d := must(e.decide(ctx, kind, e.action(kind)))
		switch d.GetUnattended() {
		case permissionv1.Verdict_VERDICT_UNSPECIFIED, permissionv1.Verdict_VERDICT_ALLOW, permissionv1.Verdict_VERDICT_DENY:
		default:
			fail(differs(kind+": unattended", d.GetUnattended(), "allow, deny or unspecified"))
		}
	}
}

// allowsOnlyWhatIsUnderstood looks for actions that are allowed for their command or paths, since they are not without
// them, and then says that these are not all. A policy that allows the kind as such may go on doing so.
func allowsOnlyWhatIsUnderstood(ctx context.Context, e *Env) {
	allowed := func(what string, a *permissionv1.Action) (bool, error) {
		d, err := e.decide(ctx, what, a)
		return d.GetVerdict() == permissionv1.Verdict_VERDICT_ALLOW, err
	}
	for _, kind := range actionKinds {
		whole := e.action(kind)
		bare := proto.CloneOf(whole)
		bare.Command, bare.Paths = nil, nil
		byContent := must(allowed(kind, whole))
		byKind := must(allowed(kind+" without command and paths", bare))
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
			yes := must(allowed(kind+" that was not understood", a))
			if yes {
				fail(fmt.Errorf("%s: allowed for its command or paths, though unparsed says that these may not be all (%q, %q)",
					kind, a.GetUnparsed(), a.GetCommand().GetUnparsed()))
			}
		}
	}
}

func isDigest(s string) bool {
	hexadecimal, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hexadecimal) == 64 && strings.Trim(hexadecimal, "0123456789abcdef") == ""
}

func grantableMeansAsk(ctx context.Context, e *Env) {
	for _, kind := range actionKinds {
		d := must(e.decide(ctx, kind, e.action(kind)))
		if d.GetGrantable() && d.GetVerdict() != permissionv1.Verdict_VERDICT_ASK {
			fail(fmt.Errorf("%s: grantable with %v, want it with ask only", kind, d.GetVerdict()))
		}
	}
}

func decidesConcurrently(ctx context.Context, e *Env) {
	const callers, calls = 64, 10
	want := map[string]*permissionv1.DecideResponse{}
	for _, kind := range actionKinds {
		d := must(e.decide(ctx, kind, e.action(kind)))
		want[kind] = d
	}
	results := make(chan error, callers)
	for caller := range callers {
		go func() {
			for i := range calls {
				kind := actionKinds[(caller+i)%len(actionKinds)]
				got, err := e.decide(ctx, kind, e.action(kind))
				if err == nil && !e.Impure && got.GetVerdict() != want[kind].GetVerdict() {
					err = differs(kind+": the verdict among many", got.GetVerdict(), want[kind].GetVerdict())
				}
				if err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	var first error
	for range callers {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	check(first)
}

// decisionsSurviveCancelling gives up calls at once and half way, small ones and large ones, and wants an answer in time
// to the one after.
func decisionsSurviveCancelling(ctx context.Context, e *Env) {
	large := e.action("tool.edit")
	large.RawInput = `"` + strings.Repeat("x", 1<<20-2) + `"`
	for i := range 60 {
		a := e.action("terminal.create")
		if i%3 == 0 {
			a = large
		}
		cancelled, cancel := context.WithTimeout(ctx, time.Duration(i)*50*time.Microsecond)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = e.permission().Decide(cancelled, &permissionv1.DecideRequest{Action: a})
		}()
		if i%2 == 0 {
			cancel()
		}
		<-done
		cancel()
	}
	_, err := e.decide(ctx, "after cancelled calls", e.action("terminal.create"))
	check(err)
}

// refusedSettingsChangeNothing asks before and after a Configure that must fail, and one that only validates.
func refusedSettingsChangeNothing(ctx context.Context, e *Env) {
	if e.Impure {
		fail(errImpure)
	}
	before := map[string]*permissionv1.DecideResponse{}
	for _, kind := range actionKinds {
		d := must(e.decide(ctx, kind, e.action(kind)))
		before[kind] = d
	}
	for _, validateOnly := range []bool{false, true} {
		refusesUnknownSetting(ctx, e, validateOnly)
	}
	for _, kind := range actionKinds {
		after := must(e.decide(ctx, kind+" after settings that were refused", e.action(kind)))
		check(alike(kind+": the answer after settings that were refused", after, before[kind]))
	}
}

func answeredIsOptional(ctx context.Context, e *Env) {
	a := e.action("terminal.create")
	decision := must(e.decide(ctx, "an action", a))
	known, unknown := 0, error(nil)
	tell := func(a *permissionv1.Action, d *permissionv1.DecideResponse, outcome string) error {
		err := e.answered(ctx, a, d, outcome)
		if errors.Is(err, ErrSkipped) {
			unknown = err
			return nil
		}
		known++
		return err
	}
	for _, outcome := range []string{"allow_once", "allow_always", "reject_once", "reject_always", "cancelled"} {
		// Twice, since the method is idempotent.
		for range 2 {
			check(tell(a, decision, outcome))
		}
	}
	if known > 0 && unknown != nil {
		fail(errors.New("it knows Answered for some outcomes, and for others says UNIMPLEMENTED"))
	}
	check(unknown)
}

func (e *Env) answered(ctx context.Context, a *permissionv1.Action, d *permissionv1.DecideResponse, outcome string) error {
	_, err := e.permission().Answered(ctx, &permissionv1.AnsweredRequest{Action: a, Decision: d, Outcome: outcome, AnsweredBy: "front"})
	if status.Code(err) == codes.Unimplemented {
		return skip("Answered is not implemented")
	}
	if err != nil {
		return fmt.Errorf("answered %s: %w", outcome, err)
	}
	return nil
}
