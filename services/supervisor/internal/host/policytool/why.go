package policytool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// Explanation is a decision with its explanation.
type Explanation struct {
	Action *permissionv1.Action
	Files  []*permissionv1.PolicyFile
	Answer *permissionv1.ExplainResponse
	// Own reports that acphost itself decided, independent of the policy.
	Own bool
	// Home is replaced by "~" in the names of files. Empty replaces nothing.
	Home string
}

// Explain makes permd decide an action with rule files and explain the decision. Without files there is no policy.
// Decisions of acphost itself before or after the policy are the same as in the gate. needs are the machines that the
// agent requires.
func Explain(
	ctx context.Context, service permissionv1.PolicyServiceClient, g *gate.Gate, action *permissionv1.Action, known hosts.Known,
	files []*permissionv1.PolicyFile,
) (*Explanation, error) {
	e := &Explanation{Action: action, Files: files}
	own := decision(gate.Ahead(action))
	reaches := action.GetDoor() == permissionv1.Door_DOOR_KERNEL && action.GetEndpoint() != nil
	if own == nil && reaches {
		own = decision(gate.ReachAhead(action))
	}
	if own != nil {
		e.Own, e.Answer = true, &permissionv1.ExplainResponse{Decision: own}
		return e, nil
	}
	if len(files) == 0 {
		e.Answer = &permissionv1.ExplainResponse{Decision: unruled(action)}
		return e, nil
	}
	answer, err := service.Explain(ctx, &permissionv1.ExplainRequest{Action: action, Files: files})
	if err != nil {
		return nil, serverError("decide by "+names(files), err)
	}
	e.Answer = answer
	if reaches {
		if own := gate.ReachBehind(action, known, answer.GetDecision()); own != nil {
			e.Own, answer.Decision = true, decision(own)
			answer.Decision.Grantable = own.Verdict == gate.Ask
		}
	}
	if own := gate.ProcessBehind(action, answer.GetDecision()); own != nil {
		e.Own, answer.Decision = own.Rule != "", decision(own)
	}
	if answer.GetDecision().GetVerdict() == gate.Allow {
		if own := decision(g.Behind(action)); own != nil {
			e.Own, answer.Decision = true, own
		}
	}
	return e, nil
}

// unruled returns the decision about an action without a policy.
func unruled(a *permissionv1.Action) *permissionv1.DecideResponse {
	if a.GetDoor() != permissionv1.Door_DOOR_REQUEST && a.GetDoor() != permissionv1.Door_DOOR_UNSPECIFIED {
		return &permissionv1.DecideResponse{Verdict: gate.Allow, Rule: gate.RuleNoPolicy, Reason: reason.NoPolicy.String()}
	}
	return &permissionv1.DecideResponse{Verdict: gate.Ask, Grantable: true, Reason: reason.NoPolicy.String()}
}

// Print writes the verdict on the first line, then every rule with the reason why it did or did not match, then the
// parsed action.
func (e *Explanation) Print(w io.Writer, s Style) {
	e.verdict(w, s)
	for _, todo := range e.next() {
		s.table(w, "     ", [][]cell{{{text: "→ " + todo}}})
	}
	var files, rules [][]cell
	for _, f := range e.Files {
		name := e.short(f.GetName())
		if config.IsReadyPolicy(name) {
			name += " (ready policy)"
		}
		files = append(files, []cell{{text: layerWord(f.GetLayer())}, {text: name}})
	}
	s.section(w, "Rule files", files)
	for _, c := range e.Answer.GetConsidered() {
		color := dim
		if c.GetMatched() != "no" {
			color = colorOf(c.GetEffect())
		}
		place := e.place(c.GetFile(), c.GetLine())
		rules = append(rules, []cell{
			{c.GetMatched(), color}, {c.GetEffect(), color}, {c.GetRule(), color}, {place, dim}, {text: c.GetWhy()},
		})
	}
	s.section(w, "Rules", rules)
	var leftOut [][]cell
	for _, glob := range e.Answer.GetDecision().GetLeaveOut() {
		leftOut = append(leftOut, []cell{{text: glob}})
	}
	s.section(w, "Kept from the command below the folders that it reads", leftOut)
	printAction(w, s, e.Action)
}

// JSON returns the explanation as an object for JSON.
func (e *Explanation) JSON() (any, error) {
	all, err := fields(e.Answer)
	if err != nil {
		return nil, err
	}
	action, err := fields(e.Action)
	if err != nil {
		return nil, err
	}
	files := make([]map[string]string, len(e.Files))
	for i, f := range e.Files {
		files[i] = map[string]string{"name": f.GetName(), "layer": f.GetLayer().String()}
	}
	all["action"], all["files"], all["next"] = action, files, append([]string{}, e.next()...)
	return all, nil
}

func (e *Explanation) verdict(w io.Writer, s Style) {
	d := e.Answer.GetDecision()
	word := gate.VerdictName(d.GetVerdict())
	rule := "no rule matches"
	if d.GetRule() != "" {
		rule = "rule " + d.GetRule()
	}
	row := []cell{{word, colorOf(word)}, {rule, bold}}
	why := d.GetReason()
	if rest, again := strings.CutPrefix(why, rule); again && d.GetRule() == "" {
		why = strings.TrimPrefix(rest, "; ")
	}
	if why != "" && why != rule {
		row = append(row, cell{text: why})
	}
	if e.Own {
		row = append(row, cell{"acphost itself decides this, whatever a policy says", dim})
	}
	s.table(w, "", [][]cell{row})
	if d.GetDetail() != "" {
		s.table(w, "     ", [][]cell{{{text: d.GetDetail()}}})
	}
	if word != "ask" {
		return
	}
	remembered := "asked every time"
	if d.GetGrantable() {
		remembered = "not asked again if an answer is remembered"
	}
	unattended := "deny"
	if d.GetUnattended() == permissionv1.Verdict_VERDICT_ALLOW {
		unattended = "allow"
	}
	s.table(w, "     ", [][]cell{{{remembered + "; " + unattended + " if no user is there to answer", dim}}})
}

// place returns the position of a rule: the name of its layer if that has one file, else the file's name, with the
// line.
func (e *Explanation) place(name string, line uint32) string {
	at := e.short(name)
	for _, f := range e.Files {
		if f.GetName() != name {
			continue
		}
		sameLayer := func(o *permissionv1.PolicyFile) bool { return shortLayer(o.GetLayer()) == shortLayer(f.GetLayer()) }
		switch i := slices.IndexFunc(e.Files, sameLayer); {
		case len(e.Files) == 1:
			at = filepath.Base(name)
		case e.Files[i] == f && !slices.ContainsFunc(e.Files[i+1:], sameLayer):
			at = shortLayer(f.GetLayer())
		}
	}
	if line == 0 {
		return at
	}
	return at + ":" + strconv.FormatUint(uint64(line), 10)
}

func (e *Explanation) short(name string) string {
	if rest, ok := strings.CutPrefix(name, e.Home+"/"); ok && e.Home != "" {
		return "~/" + rest
	}
	return name
}

// facts are rows of names and values.
type facts [][]cell

// add adds a value that is not empty.
func (f *facts) add(name, value string) {
	if value != "" {
		*f = append(*f, []cell{{name, dim}, {text: value}})
	}
}

// addDoubt adds the reason why something could not be parsed, if there is one.
func (f *facts) addDoubt(why string) {
	if why != "" {
		*f = append(*f, []cell{{"not understood", yellow}, {text: why}})
	}
}

// printAction writes the parsed action.
func printAction(w io.Writer, s Style, a *permissionv1.Action) {
	var read facts
	read.add("kind", a.GetKind())
	read.add("method", a.GetMethod())
	read.add("agent", a.GetAgent())
	read.add("mode", a.GetMode())
	read.add("tool", a.GetTool())
	read.add("walls", wordsOfWalls(a.GetWalls()))
	for i, root := range a.GetRoots() {
		if i < len(a.GetResolvedRoots()) {
			root = formatPath(root, a.GetResolvedRoots()[i])
		}
		read.add("root", root)
	}
	if e := a.GetEndpoint(); e != nil {
		read.add("host", fmt.Sprintf("%s, port %d", e.GetHost(), e.GetPort()))
		for _, address := range e.GetAddresses() {
			read.add("address", address)
		}
	}
	read.addDoubt(a.GetUnparsed())
	s.section(w, "Action", read)
	if c := a.GetCommand(); c != nil {
		printCommand(w, s, c)
	}
	var paths [][]cell
	for _, p := range a.GetPaths() {
		leadsTo := formatPath(p.GetPath(), p.GetResolvedPath())
		paths = append(paths, []cell{{text: accessWord(p.GetAccess())}, {text: placeWord(p)}, {text: leadsTo}})
	}
	s.section(w, "Paths", paths)
}

func printCommand(w io.Writer, s Style, c *permissionv1.Command) {
	read := facts{{{"line", dim}, {text: c.GetText()}}}
	read.add("in", c.GetCwd())
	for _, env := range c.GetEnv() {
		read.add("with", env)
	}
	read.addDoubt(c.GetUnparsed())
	for i, sub := range c.GetSubCommands() {
		read.add(strconv.Itoa(i+1), argv(sub))
		for _, note := range notes(sub) {
			read = append(read, []cell{{}, {note, dim}})
		}
	}
	s.section(w, "Command", read)
}

// argv formats the words of a sub-command, each one recognizable.
func argv(sub *permissionv1.SubCommand) string {
	if len(sub.GetArgv()) == 0 {
		return "(no command)"
	}
	words := make([]string, len(sub.GetArgv()))
	for i, word := range sub.GetArgv() {
		quoted, _ := json.Marshal(word)
		words[i] = string(quoted)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// notes returns other facts about a sub-command.
func notes(sub *permissionv1.SubCommand) []string {
	var all []string
	if len(sub.GetWrappers()) > 0 {
		all = append(all, "run by "+strings.Join(sub.GetWrappers(), ", then "))
	}
	for _, a := range sub.GetAssignments() {
		all = append(all, "sets "+a)
	}
	for _, r := range sub.GetRedirections() {
		file := formatPath(r.GetPath(), r.GetResolvedPath())
		if r.GetDynamic() {
			file = "a file only known when it runs"
		}
		all = append(all, "redirects "+r.GetOperator()+" "+file)
	}
	switch {
	case sub.GetCwdUnknown():
		all = append(all, "in a folder only known when it runs")
	case sub.GetCwd() != "":
		all = append(all, "in "+sub.GetCwd())
	}
	if sub.GetDynamic() {
		all = append(all, dynamicNote(sub))
	}
	if why := shell.Doubt(sub); why != "" && (sub.GetProgram() != nil || sub.GetRepository() != nil) {
		all = append(all, why)
	} else if sub.GetProgram().GetMissing() {
		all = append(all, "no program of that name is installed here")
	}
	return append(all, effects(sub)...)
}

// effects returns the effects of a sub-command, and the reason why they are not known in full.
func effects(sub *permissionv1.SubCommand) []string {
	facts := sub.GetFacts()
	if len(sub.GetArgv()) == 0 {
		return nil
	}
	var all []string
	for _, verb := range []struct {
		word string
		is   func(*permissionv1.FileUse) bool
	}{
		{"reads", func(f *permissionv1.FileUse) bool {
			return f.GetAccess() == permissionv1.Access_ACCESS_READ && !f.GetMetadataOnly()
		}},
		{"looks at", func(f *permissionv1.FileUse) bool {
			return f.GetAccess() == permissionv1.Access_ACCESS_READ && f.GetMetadataOnly()
		}},
		{"writes", func(f *permissionv1.FileUse) bool { return f.GetAccess() == permissionv1.Access_ACCESS_WRITE }},
	} {
		var files []string
		for _, f := range facts.GetFiles() {
			if verb.is(f) {
				files = append(files, formatFileUse(f))
			}
		}
		if more := len(files) - maxFiles; more > 0 {
			files = append(files[:maxFiles], fmt.Sprintf("and %d more", more))
		}
		if len(files) > 0 {
			all = append(all, verb.word+" "+strings.Join(files, ", "))
		}
	}
	for _, flag := range []struct {
		is   bool
		note string
	}{
		{facts.GetRunsCode(), "runs code that is not in the line"},
		{facts.GetNetwork(), "talks to other machines"},
		{facts.GetChanges(), "changes more than files"},
		{facts.GetKnown() && len(facts.GetFiles()) == 0, "uses no files"},
		{!facts.GetKnown(), "what it does is not known" + because(facts.GetUnknown())},
	} {
		if flag.is {
			all = append(all, flag.note)
		}
	}
	return all
}

// maxFiles limits the files of a sub-command that are shown.
const maxFiles = 8

// formatFileUse formats a file that a sub-command uses, with the extent of files below it.
func formatFileUse(f *permissionv1.FileUse) string {
	text := formatPath(f.GetPath(), f.GetResolvedPath())
	switch {
	case f.GetTracked():
		text = "what git keeps in the repository of " + text
	case f.GetRecursive():
		text += " and all below"
	}
	if !f.GetInsideRoots() {
		text += " (outside)"
	}
	if f.GetPossible() {
		text += " (possibly)"
	}
	return text
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func dynamicNote(sub *permissionv1.SubCommand) string {
	var words []string
	for _, i := range sub.GetDynamicWords() {
		if int(i) < len(sub.GetArgv()) {
			words = append(words, strconv.Quote(sub.GetArgv()[i]))
		}
	}
	if len(words) == 0 {
		return "only known when it runs"
	}
	return "only known when it runs: " + strings.Join(words, ", ")
}

// formatPath formats a path and its resolved path, if that differs.
func formatPath(asked, resolved string) string {
	switch resolved {
	case asked:
		return asked
	case "":
		return asked + " (not known where it leads)"
	}
	return asked + " → " + resolved
}

func placeWord(p *permissionv1.PathAccess) string {
	switch {
	case p.GetProtected():
		return "acphost's own"
	case p.GetInsideRoots():
		return "inside"
	}
	return "outside"
}

func accessWord(a permissionv1.Access) string {
	return cmp.Or(map[permissionv1.Access]string{permissionv1.Access_ACCESS_READ: "read", permissionv1.Access_ACCESS_WRITE: "write"}[a], "?")
}

// shortLayer returns the name of a layer in one word.
func shortLayer(l permissionv1.Layer) string {
	word, _, _ := strings.Cut(layerWord(l), ",")
	return word
}

func layerWord(l permissionv1.Layer) string {
	return cmp.Or(map[permissionv1.Layer]string{
		permissionv1.Layer_LAYER_ADMIN: "admin", permissionv1.Layer_LAYER_WORKSPACE: "workspace, may only tighten",
		permissionv1.Layer_LAYER_WORKSPACE_TRUSTED: "workspace, trusted",
	}[l], "user")
}

func names(files []*permissionv1.PolicyFile) string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = f.GetName()
	}
	return strings.Join(list, ", ")
}
