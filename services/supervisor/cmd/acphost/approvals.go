package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// answeredByCLI is who answers here, for all who learn of it.
const answeredByCLI = "cli"

func (a *app) approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List and answer the questions that wait for a person",
		Long: `List and answer the questions that wait for a person: permissions that agents ask
for, or that a policy wants a person to give, and what agents want to know.

Whoever answers first counts: the editor, a program, or you; the others learn who
it was. Agents and handlers cannot answer, and neither can what they have started.`,
		Args: commandNeeded,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.approvalsListCommand(), a.approvalsAnswerCommand())
	return cmd
}

// waiting is a question, and who has it.
type waiting struct {
	at *reached
	*supervisorv1.Approval
}

func (w waiting) message() (int, proto.Message) { return w.at.pid, w.Approval }

func (a *app) approvalsListCommand() *cobra.Command {
	var which reachFlags
	var asJSON bool
	var session string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the questions that wait, oldest first",
		Example: `  acphost approvals list
  acphost approvals list --json | jq -r '.[].id'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, closeAll, err := a.reachAll(cmd, &which)
			defer closeAll()
			if err != nil {
				return err
			}
			list := a.questions(cmd.Context(), all, session)
			if asJSON {
				return printMessages(a, list)
			}
			return a.printQuestions(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().StringVar(&session, "session", "", "only those of the session with this `ID`")
	complete(cmd, "session", words())
	which.register(cmd)
	return cmd
}

func (a *app) approvalsAnswerCommand() *cobra.Command {
	var which reachFlags
	var accept string
	var decline, cancel bool
	cmd := &cobra.Command{
		Use:   "answer ID {OPTION | --accept JSON | --decline | --cancel}",
		Short: "Answer a question",
		Long: `Answer a question. ID is what "acphost approvals list" shows, or how it begins.

OPTION answers a permission question: the id of an option that it offers, or a kind
(allow_once, allow_always, reject_once, reject_always) that it offers once. What an
agent wants to know is answered with --accept, the form's content as a JSON object
({} for a page that you have opened), or with --decline.`,
		Example: `  acphost approvals answer claude-1/7 allow_once
  acphost approvals answer gemini-2/12 --accept '{"branch": "main"}'
  acphost approvals answer gemini-2/12 --decline`,
		Args: func(cmd *cobra.Command, args []string) error {
			answers := len(args) - 1
			for _, given := range []bool{cmd.Flags().Changed("accept"), decline, cancel} {
				if given {
					answers++
				}
			}
			switch {
			case len(args) == 0 || args[0] == "":
				return wrongUse(cmd, `expected a question's id; "acphost approvals list" shows them`)
			case answers != 1:
				return wrongUse(cmd, "expected one answer: an option, --accept, --decline or --cancel")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeAnswer(cmd, &which, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &supervisorv1.AnswerApprovalRequest{Id: args[0], AnsweredBy: answeredByCLI}
			switch {
			case len(args) > 1:
				req.Answer = &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: args[1]}
			case decline:
				req.Answer = &supervisorv1.AnswerApprovalRequest_Decline{Decline: true}
			case cancel:
				req.Answer = &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}
			default:
				req.Answer = &supervisorv1.AnswerApprovalRequest_Accept{Accept: accept}
			}
			return a.answer(cmd, &which, req)
		},
	}
	cmd.Flags().StringVar(&accept, "accept", "", "the form's content, a `JSON` object")
	cmd.Flags().BoolVar(&decline, "decline", false, "you do not want to say")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "you do not decide")
	complete(cmd, "accept", words())
	which.register(cmd)
	return cmd
}

// answer answers a question of the one supervisor that has it.
func (a *app) answer(cmd *cobra.Command, which *reachFlags, req *supervisorv1.AnswerApprovalRequest) error {
	all, closeAll, err := a.reachAll(cmd, which)
	defer closeAll()
	if err != nil {
		return err
	}
	at, err := a.having(cmd.Context(), all, req.GetId())
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(cmd.Context(), verbTimeout)
	defer stop()
	res, err := supervisorv1.NewApprovalServiceClient(at.conn).AnswerApproval(ctx, req)
	if err != nil {
		return explained(err)
	}
	text := cell(res.GetAnswer().GetId()) + ": " + cell(res.GetAnswer().GetOutcome())
	if option := res.GetAnswer().GetOptionId(); option != "" {
		text += " (" + cell(option) + ")"
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// having finds the supervisor that has a question. Where none of several has it, it is not asked further: ids of different
// supervisors can be the same.
func (a *app) having(ctx context.Context, all []*reached, id string) (*reached, error) {
	switch len(all) {
	case 0:
		return nil, errors.New("no supervisor is running")
	case 1:
		return all[0], nil // it says what is wrong, and who has answered before
	}
	var exact, begins []*reached
	for _, w := range a.questions(ctx, all, "") {
		switch {
		case w.GetId() == id && !slices.Contains(exact, w.at):
			exact = append(exact, w.at)
		case strings.HasPrefix(w.GetId(), id) && !slices.Contains(begins, w.at):
			begins = append(begins, w.at)
		}
	}
	if exact == nil {
		exact = begins
	}
	switch len(exact) {
	case 0:
		return nil, fmt.Errorf(`no question %s waits; "acphost approvals list" shows those that do`, cell(id))
	case 1:
		return exact[0], nil
	}
	return nil, fmt.Errorf("%d supervisors have a question %s: say whose is meant%s", len(exact), cell(id), choices(exact))
}

// questions asks supervisors for what waits, oldest first.
func (a *app) questions(ctx context.Context, all []*reached, session string) []waiting {
	list := asked(ctx, a, all, "questions", func(ctx context.Context, at *reached) ([]waiting, error) {
		res, err := supervisorv1.NewApprovalServiceClient(at.conn).ListApprovals(ctx, &supervisorv1.ListApprovalsRequest{SessionId: session})
		if err != nil {
			return nil, err
		}
		var some []waiting
		for _, q := range res.GetApprovals() {
			some = append(some, waiting{at, q})
		}
		return some, nil
	})
	slices.SortStableFunc(list, func(x, y waiting) int { return x.GetTime().AsTime().Compare(y.GetTime().AsTime()) })
	return list
}

func (a *app) printQuestions(list []waiting) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stderr, "no question waits")
		return err
	}
	several := slices.ContainsFunc(list, func(w waiting) bool { return w.at != list[0].at })
	var b strings.Builder
	for i, w := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeQuestion(&b, w, several)
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// writeQuestion writes one question: what it is about, then what can be answered.
func writeQuestion(b *strings.Builder, w waiting, several bool) {
	fmt.Fprintf(b, "%s  asked %s", oneLine(w.GetId(), 80), clock(w.GetTime().AsTime()))
	if w.GetExpireTime().IsValid() {
		fmt.Fprintf(b, ", waits until %s", clock(w.GetExpireTime().AsTime()))
	}
	if w.GetSessionId() != "" {
		fmt.Fprintf(b, ", session %s", oneLine(w.GetSessionId(), 40))
	}
	if several {
		fmt.Fprintf(b, ", supervisor %d", w.at.pid)
	}
	b.WriteByte('\n')
	if q := w.GetPermission(); q != nil {
		writePermission(b, q)
	}
	if e := w.GetElicitation(); e != nil {
		writeElicitation(b, e)
	}
}

func writePermission(b *strings.Builder, q *supervisorv1.PermissionQuestion) {
	kind := ""
	if q.GetKind() != "" {
		kind = oneLine(q.GetKind(), 20) + ": "
	}
	fmt.Fprintf(b, "  %s%s\n", kind, oneLine(q.GetTitle(), 400))
	for _, l := range q.GetLocations() {
		fmt.Fprintf(b, "    %s\n", oneLine(l.GetPath(), 200))
	}
	if input := q.GetRawInput(); input != "" {
		fmt.Fprintf(b, "    input: %s\n", oneLine(input, 400))
	}
	if q.GetReason() != "" {
		fmt.Fprintf(b, "    asked because: %s\n", oneLine(q.GetReason(), 200))
	}
	for _, o := range q.GetOptions() {
		fmt.Fprintf(b, "  %-20s %s (%s)\n", oneLine(o.GetOptionId(), 60), oneLine(o.GetName(), 80), oneLine(o.GetKind(), 20))
	}
}

func writeElicitation(b *strings.Builder, e *supervisorv1.Elicitation) {
	fmt.Fprintf(b, "  %s\n", oneLine(e.GetMessage(), 400))
	if e.GetUrl() != "" {
		fmt.Fprintf(b, "    open %s\n  %-20s once it is open\n", oneLine(e.GetUrl(), 2000), "--accept '{}'")
	}
	for _, field := range schemaFields(e.GetRequestedSchema()) {
		fmt.Fprintf(b, "    %s\n", field)
	}
	if e.GetUrl() == "" {
		fmt.Fprintf(b, "  %-20s the form's content\n", "--accept JSON")
	}
	fmt.Fprintf(b, "  %-20s you do not want to say\n", "--decline")
}

// schemaFields says what a form asks for, one field a line.
func schemaFields(schema string) []string {
	var s struct {
		Properties map[string]struct {
			Type        string
			Title       string
			Description string
			Enum        []any
		}
		Required []string
	}
	if schema == "" || json.Unmarshal([]byte(schema), &s) != nil {
		return nil
	}
	const most = 50
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if len(lines) == most {
			return append(lines, "…")
		}
		p := s.Properties[name]
		line := oneLine(name, 60) + ": " + oneLine(p.Type, 20)
		if len(p.Enum) > 0 {
			var values []string
			for _, v := range p.Enum[:min(len(p.Enum), 20)] {
				values = append(values, oneLine(fmt.Sprint(v), 40))
			}
			line += ", one of " + strings.Join(values, ", ")
		}
		if !slices.Contains(s.Required, name) {
			line += ", optional"
		}
		for _, words := range []string{p.Title, p.Description} {
			if words != "" {
				line += "; " + oneLine(words, 100)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// clock is a time of the day, with the day if that is another one.
func clock(t time.Time) string {
	t = t.Local()
	if now := time.Now(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// completeAnswer completes the ids of questions, then the options of one.
func (a *app) completeAnswer(cmd *cobra.Command, which *reachFlags, args []string) []cobra.Completion {
	if len(args) > 1 {
		return nil
	}
	all, closeAll, err := a.reachAll(cmd, which)
	defer closeAll()
	if err != nil {
		return nil
	}
	var list []cobra.Completion
	for _, w := range a.questions(cmd.Context(), all, "") {
		switch {
		case len(args) == 0:
			list = append(list, cobra.CompletionWithDesc(cell(w.GetId()), oneLine(w.GetPermission().GetTitle()+w.GetElicitation().GetMessage(), 60)))
		case w.GetId() == args[0]:
			for _, o := range w.GetPermission().GetOptions() {
				list = append(list, cobra.CompletionWithDesc(cell(o.GetOptionId()), oneLine(o.GetName(), 60)))
			}
		}
	}
	return list
}
