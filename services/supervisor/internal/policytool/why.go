package policytool

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
)

// Explained is a decision and how it came about.
type Explained struct {
	Action *permissionv1.Action
	Files  []*permissionv1.PolicyFile
	Answer *permissionv1.ExplainResponse
	// Own: acphost itself decided, whatever a policy says.
	Own bool
	// Home is shortened to "~" in the names of files. Empty: none is.
	Home string
}

// Explain has permd decide an action by rule files and say why. Without files no policy is set. What acphost itself decides
// before or behind a policy is said as the gate would.
func Explain(
	ctx context.Context, service permissionv1.PolicyServiceClient, g *gate.Gate, action *permissionv1.Action, files []*permissionv1.PolicyFile,
) (*Explained, error) {
	e := &Explained{Action: action, Files: files}
	if own := decision(gate.Ahead(action)); own != nil {
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
	if answer.GetDecision().GetVerdict() == gate.Allow {
		if own := decision(g.Behind(action)); own != nil {
			e.Own, answer.Decision = true, own
		}
	}
	return e, nil
}

// unruled is what comes of an action where nobody has chosen a policy.
func unruled(a *permissionv1.Action) *permissionv1.DecideResponse {
	if a.GetDoor() == permissionv1.Door_DOOR_CALL {
		return &permissionv1.DecideResponse{Verdict: gate.Allow, Rule: gate.RuleNoPolicy, Reason: "no policy is set: it is done, and nobody is asked"}
	}
	return &permissionv1.DecideResponse{Verdict: gate.Ask, Grantable: true, Reason: "no policy is set: what the agent asks goes to the person"}
}

// Print writes the verdict on the first line, then every rule with why it did or did not match, then what was read from
// the action.
func (e *Explained) Print(w io.Writer, s Style) {
	e.verdict(w, s)
	for _, todo := range e.next() {
		s.table(w, "     ", [][]cell{{{text: "→ " + todo}}})
	}
	if len(e.Files) > 0 {
		s.heading(w, "Rule files")
		rows := make([][]cell, len(e.Files))
		for i, f := range e.Files {
			name := e.short(f.GetName())
			if config.IsReadyPolicy(name) {
				name += " (ready policy)"
			}
			rows[i] = []cell{{text: layerWord(f.GetLayer())}, {text: name}}
		}
		s.table(w, "  ", rows)
	}
	if considered := e.Answer.GetConsidered(); len(considered) > 0 {
		s.heading(w, "Rules")
		rows := make([][]cell, len(considered))
		for i, c := range considered {
			color := dim
			if c.GetMatched() != "no" {
				color = colorOf(c.GetEffect())
			}
			place := e.place(c.GetFile(), c.GetLine())
			rows[i] = []cell{
				{c.GetMatched(), color}, {c.GetEffect(), color}, {c.GetRule(), color}, {place, dim}, {text: c.GetWhy()},
			}
		}
		s.table(w, "  ", rows)
	}
	printAction(w, s, e.Action)
}

// PrintJSON writes all of it as one JSON object.
func (e *Explained) PrintJSON(w io.Writer) error {
	object, err := fields(e.Answer)
	if err != nil {
		return err
	}
	action, err := fields(e.Action)
	if err != nil {
		return err
	}
	files := make([]map[string]string, len(e.Files))
	for i, f := range e.Files {
		files[i] = map[string]string{"name": f.GetName(), "layer": f.GetLayer().String()}
	}
	all := map[string]any{"action": action, "files": files, "next": append([]string{}, e.next()...)}
	for name, value := range object {
		all[name] = value
	}
	return printJSON(w, all)
}

func (e *Explained) verdict(w io.Writer, s Style) {
	d := e.Answer.GetDecision()
	word := gate.VerdictName(d.GetVerdict())
	rule := "no rule matches"
	if d.GetRule() != "" {
		rule = "rule " + d.GetRule()
	}
	row := []cell{{word, colorOf(word)}, {rule, bold}}
	if d.GetReason() != "" && d.GetReason() != rule {
		row = append(row, cell{text: d.GetReason()})
	}
	if e.Own {
		row = append(row, cell{"acphost itself decides this, whatever a policy says", dim})
	}
	s.table(w, "", [][]cell{row})
	if word != "ask" {
		return
	}
	remembered := "asked each time anew"
	if d.GetGrantable() {
		remembered = "not asked where an answer is remembered"
	}
	unattended := "deny"
	if d.GetUnattended() == permissionv1.Verdict_VERDICT_ALLOW {
		unattended = "allow"
	}
	s.table(w, "     ", [][]cell{{{remembered + "; " + unattended + " if nobody is there to answer", dim}}})
}

// place is where a rule stands: the one file of its layer, else the file's name.
func (e *Explained) place(name string, line uint32) string {
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

func (e *Explained) short(name string) string {
	if rest, ok := strings.CutPrefix(name, e.Home+"/"); ok && e.Home != "" {
		return "~/" + rest
	}
	return name
}

// printAction writes what was read from what the agent would send.
func printAction(w io.Writer, s Style, a *permissionv1.Action) {
	s.heading(w, "Action")
	rows := [][]cell{{{"kind", dim}, {text: a.GetKind()}}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []cell{{name, dim}, {text: value}})
		}
	}
	add("method", a.GetMethod())
	add("agent", a.GetAgent())
	add("mode", a.GetMode())
	add("tool", a.GetTool())
	for i, root := range a.GetRoots() {
		if i < len(a.GetResolvedRoots()) {
			root = leads(root, a.GetResolvedRoots()[i])
		}
		add("root", root)
	}
	if a.GetUnparsed() != "" {
		rows = append(rows, []cell{{"not understood", yellow}, {text: a.GetUnparsed()}})
	}
	s.table(w, "  ", rows)
	if c := a.GetCommand(); c != nil {
		printCommand(w, s, c)
	}
	if len(a.GetPaths()) > 0 {
		s.heading(w, "Paths")
		var rows [][]cell
		for _, p := range a.GetPaths() {
			rows = append(rows, []cell{{accessWord(p.GetAccess()), ""}, {placeWord(p), ""}, {leads(p.GetPath(), p.GetResolvedPath()), ""}})
		}
		s.table(w, "  ", rows)
	}
}

func printCommand(w io.Writer, s Style, c *permissionv1.Command) {
	s.heading(w, "Command")
	rows := [][]cell{{{"line", dim}, {text: c.GetText()}}}
	if c.GetCwd() != "" {
		rows = append(rows, []cell{{"in", dim}, {text: c.GetCwd()}})
	}
	for _, env := range c.GetEnv() {
		rows = append(rows, []cell{{"with", dim}, {text: env}})
	}
	if c.GetUnparsed() != "" {
		rows = append(rows, []cell{{"not understood", yellow}, {text: c.GetUnparsed()}})
	}
	for i, sub := range c.GetSubCommands() {
		rows = append(rows, []cell{{strconv.Itoa(i + 1), dim}, {text: argv(sub)}})
		for _, note := range notes(sub) {
			rows = append(rows, []cell{{}, {note, dim}})
		}
	}
	s.table(w, "  ", rows)
}

// argv shows the words of a sub-command one by one, so that nobody need guess where one ends.
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

// notes are what else is known of a sub-command.
func notes(sub *permissionv1.SubCommand) []string {
	var all []string
	if len(sub.GetWrappers()) > 0 {
		all = append(all, "run by "+strings.Join(sub.GetWrappers(), ", then "))
	}
	for _, a := range sub.GetAssignments() {
		all = append(all, "sets "+a)
	}
	for _, r := range sub.GetRedirections() {
		file := leads(r.GetPath(), r.GetResolvedPath())
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
	return all
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

// leads shows a path and where it leads, if that is elsewhere.
func leads(asked, resolved string) string {
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

// shortLayer is whose rule file it is, in a word.
func shortLayer(l permissionv1.Layer) string {
	word, _, _ := strings.Cut(layerWord(l), ",")
	return word
}

func layerWord(l permissionv1.Layer) string {
	switch l {
	case permissionv1.Layer_LAYER_ADMIN:
		return "admin"
	case permissionv1.Layer_LAYER_WORKSPACE:
		return "workspace, may only tighten"
	case permissionv1.Layer_LAYER_WORKSPACE_TRUSTED:
		return "workspace, trusted"
	}
	return "user"
}

func names(files []*permissionv1.PolicyFile) string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = f.GetName()
	}
	return strings.Join(list, ", ")
}
