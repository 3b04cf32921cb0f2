// Package approvals implements "acphost approvals": lists and answers the open questions of running supervisors.
package approvals

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp/form"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/recordings"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// answeredByCLI is the name of this client in answers.
const answeredByCLI = "cli"

// New returns the command "approvals".
func New(call *command.Call) *cobra.Command {
	return command.Group("approvals", "List and answer open questions",
		`List and answer open questions: permission requests of agents, questions of acphost
about actions, and forms of agents.

The first answer applies: of the editor, a program, or this command. acphost
notifies the others. Agents, handlers and the processes that they have started
cannot answer.`,
		newList(call), newAnswer(call))
}

// openQuestion is a question with its supervisor.
type openQuestion = reach.Item[*supervisorv1.Approval]

func newList(call *command.Call) *cobra.Command {
	var full bool
	var session string
	cmd := reach.Lister(&cobra.Command{
		Use:   "list",
		Short: "List open questions, oldest first",
		Long: `List open questions, oldest first, each with its command or change and the possible
answers. On a terminal, long questions are cut; --full shows them completely, with
the whole input of the tool and the reason of the policy.`,
		Example: `  acphost approvals list
  acphost approvals list --json | jq -r .id`,
	}, call, func(ctx context.Context, call *command.Call, all []*reach.Supervisor) []openQuestion {
		return questions(ctx, call, all, session)
	}, func(list []openQuestion) error { return printQuestions(call, list, full) }, func(w openQuestion) cliflag.Listed {
		return cliflag.Listed{Time: w.Of.GetTime().AsTime(), Agents: cliflag.AgentNames(w.Of.GetAgentId(), w.At.Agent)}
	}, cliflag.LimitFlag, cliflag.SinceFlag, cliflag.AgentFlag)
	cmd.Flags().BoolVar(&full, "full", false, "show all of long commands, changes and messages")
	cmd.Flags().StringVar(&session, "session", "", "only those of the session with this `ID`")
	cliflag.Complete(cmd, "session", recordings.CompleteSessions(call, new(string)))
	return cmd
}

func newAnswer(call *command.Call) *cobra.Command {
	var which reach.Flags
	var accept string
	var decline, cancel, full bool
	cmd := &cobra.Command{
		Use:   "answer ID {OPTION | --accept JSON | --decline | --cancel}",
		Short: "Answer a question",
		Long: `Answer a question. ID is the first name in "acphost approvals list", such as
K7QF2MXA: random characters of the question's id, which agents do not know. The
first four are sufficient if no other open question begins with them. ID can also be
the whole handle, such as claude-1/7, or the whole id ("acphost approvals list
--json"). A part of a handle is not accepted, because agents choose text in handles.

OPTION answers a permission request: the id of an option, or a kind (allow_once,
allow_always, reject_once, reject_always) that only one option has. --accept answers
a form of an agent with its content as a JSON object ({} for a page that you have
opened), and --decline refuses it.

If "acphost approvals list" cuts a question on a terminal, read the whole question with
"approvals list --full", and use --full here to allow or accept something.`,
		Example: `  acphost approvals answer K7QF2MXA allow_once
  acphost approvals answer claude-1/7 allow_once
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
				return command.UsageErrorf(cmd, `expected a question's id; "acphost approvals list" shows them`)
			case answers != 1:
				return command.UsageErrorf(cmd, "expected one answer: an option, --accept, --decline or --cancel")
			}
			return nil
		},
		ValidArgsFunction: reach.Complete(call, &which, 2, completeAnswer),
		RunE: func(cmd *cobra.Command, args []string) error {
			var with *supervisorv1.AnswerApprovalRequest
			switch {
			case len(args) > 1:
				with = client.Choose(args[1])
			case decline:
				with = client.Decline()
			case cancel:
				with = client.Undecided()
			default:
				with = client.Accept(accept)
			}
			return reach.With(cmd, call, &which, func(all []*reach.Supervisor) error {
				return answer(cmd.Context(), call, all, args[0], with, full || !call.Terminal(call.Stdout))
			})
		},
	}
	cmd.Flags().StringVar(&accept, "accept", "", "the form's content, a `JSON` object")
	cmd.Flags().BoolVar(&decline, "decline", false, "you do not want to say")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "you do not decide")
	cmd.Flags().BoolVar(&full, "full", false, "you have read the whole question, which the list cuts")
	cliflag.Complete(cmd, "accept", cliflag.Words())
	which.Register(cmd)
	return cmd
}

// answer answers a question at its supervisor. full means that the caller has read all of the question, and not only
// the text of printQuestions on a terminal.
func answer(
	ctx context.Context, call *command.Call, all []*reach.Supervisor, given string,
	with *supervisorv1.AnswerApprovalRequest, full bool,
) error {
	list := questions(ctx, call, all, "")
	at, id, err := findQuestion(call, all, list, given)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(w openQuestion) bool { return w.Of.GetId() == id }); i >= 0 {
		hidden := writeQuestion(new(strings.Builder), output.RenderOptions(call, "", false, false), list[i], "", false, full)
		if withheld(list[i].Of, with, hidden) {
			return fmt.Errorf(`not answered: "acphost approvals list" does not show %s of this question: `+
				"read them with --full, then answer with --full", hidden.Count(""))
		}
	}
	ctx, stop := context.WithTimeout(ctx, reach.VerbTimeout)
	defer stop()
	with.Surface = supervisorv1.Surface_SURFACE_INPUT
	ended, err := at.Answer(ctx, id, answeredByCLI, with)
	if e := client.ErrorOf(err); e != nil && e.Code == codes.NotFound {
		return fmt.Errorf("%w%s", reach.CallError(err), shortList(list))
	}
	if err != nil {
		return reach.CallError(err)
	}
	text := output.Cell(client.Handle(ended.GetId())) + ": " + output.Cell(ended.GetOutcome())
	if option := ended.GetOptionId(); option != "" {
		text += " (" + output.Cell(option) + ")"
	}
	_, err = fmt.Fprintln(call.Stdout, text)
	return err
}

// withheld reports whether an answer has to wait until the caller has read all of the question, of which hidden is
// hidden.
func withheld(a *supervisorv1.Approval, with *supervisorv1.AnswerApprovalRequest, hidden render.Hidden) bool {
	switch with := with.GetAnswer().(type) {
	case *supervisorv1.AnswerApprovalRequest_OptionId:
		return slices.ContainsFunc(a.GetPermission().GetOptions(), func(o *supervisorv1.PermissionOption) bool {
			return (o.GetOptionId() == with.OptionId || o.GetKind() == with.OptionId) && hidden.Withholds(o)
		})
	case *supervisorv1.AnswerApprovalRequest_Accept:
		return hidden.Withholds(nil)
	}
	return false
}

// findQuestion finds the supervisor of a question, and the question's id. If none of several supervisors lists the
// question, having returns an error, because handles of different supervisors can be equal. A single supervisor is
// asked in any case, and its error contains the reason, or the name of the user who has answered before.
func findQuestion(call *command.Call, all []*reach.Supervisor, list []openQuestion, given string) (at *reach.Supervisor, id string, err error) {
	if len(all) == 0 {
		return nil, "", reach.None(call, "supervisor")
	}
	var of []*reach.Supervisor
	var named []openQuestion
	for _, w := range list {
		if reach.MatchesQuestion(given, w.Of) {
			of, id, named = append(of, w.At), w.Of.GetId(), append(named, w)
		}
	}
	switch {
	case len(of) == 1:
		return of[0], id, nil
	case len(of) > 1 && reach.IsQuestionPrefix(given) && given != reach.QuestionHandle(named[0].Of):
		return nil, "", fmt.Errorf("%d questions begin with %s: give more characters%s", len(of), output.Cell(given), shortList(named))
	case len(of) > 1:
		return nil, "", fmt.Errorf("%d supervisors have a question %s: say whose is meant%s", len(of), output.Cell(given), reach.Choices(of))
	case len(all) > 1:
		return nil, "", fmt.Errorf("no question %s waits%s", output.Cell(given), shortList(list))
	}
	return all[0], given, nil
}

// approvalsOf returns the questions without their supervisors.
func approvalsOf(list []openQuestion) []*supervisorv1.Approval {
	all := make([]*supervisorv1.Approval, len(list))
	for i, w := range list {
		all[i] = w.Of
	}
	return all
}

// names returns the names of a question in a list: the unique prefix that answers it, if it has one, and its handle,
// which cut shortens.
func names(q *supervisorv1.Approval, list []*supervisorv1.Approval, cut func(string) string) string {
	handle := reach.QuestionHandle(q)
	if prefix := reach.QuestionPrefix(q, list); prefix != handle {
		return prefix + "  " + cut(handle)
	}
	return output.Cell(handle)
}

// shortHandle shortens a long handle of a question that can be answered by its prefix.
func shortHandle(handle string) string { return output.OneLine(handle, 40) }

// shortList lists the open questions in an error, to be copied.
func shortList(list []openQuestion) string {
	const limit = 20
	if len(list) == 0 {
		return "; none waits"
	}
	var b strings.Builder
	b.WriteString("; these wait:")
	all := approvalsOf(list)
	for _, w := range list[:min(len(list), limit)] {
		fmt.Fprintf(&b, "\n  %s  %s", names(w.Of, all, shortHandle), output.OneLine(render.QuestionSubject(w.Of), 80))
	}
	if more := len(list) - limit; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// questions returns the open questions of supervisors, oldest first.
func questions(ctx context.Context, call *command.Call, all []*reach.Supervisor, session string) []openQuestion {
	ask := func(ctx context.Context, at *reach.Supervisor) ([]*supervisorv1.Approval, error) {
		res, err := at.Approvals.ListApprovals(ctx, &supervisorv1.ListApprovalsRequest{SessionId: session})
		return res.GetApprovals(), err
	}
	list := reach.List(ctx, call, all, "questions", ask)
	slices.SortStableFunc(list, func(x, y openQuestion) int { return x.Of.GetTime().AsTime().Compare(y.Of.GetTime().AsTime()) })
	return list
}

func printQuestions(call *command.Call, list []openQuestion, full bool) error {
	if len(list) == 0 {
		return output.PrintEmpty(call, "no question waits")
	}
	several := slices.ContainsFunc(list, func(w openQuestion) bool { return w.At != list[0].At })
	var b strings.Builder
	look := output.RenderOptions(call, "", false, false)
	full = full || !call.Terminal(call.Stdout)
	all := approvalsOf(list)
	for i, w := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		name := names(w.Of, all, shortHandle)
		if full {
			name = names(w.Of, all, output.Whole)
		}
		writeQuestion(&b, look, w, name, several, full)
	}
	return output.Page(call, b.String())
}

// writeQuestion writes one question: its name, its content, then the possible answers. It returns the amount that it
// omits, except for the names of options.
func writeQuestion(
	b *strings.Builder, look render.Options, w openQuestion, name string, several, full bool,
) (hidden render.Hidden) {
	q := w.Of
	session := output.OneLine(q.GetSessionId(), 40)
	if full {
		session = output.Whole(q.GetSessionId())
	}
	fmt.Fprintf(b, "%s  asked %s", name, clock(q.GetTime().AsTime()))
	if q.GetExpireTime().IsValid() {
		fmt.Fprintf(b, ", waits until %s", clock(q.GetExpireTime().AsTime()))
	}
	if q.GetSessionId() != "" {
		fmt.Fprintf(b, ", session %s", session)
	}
	if several {
		fmt.Fprintf(b, ", supervisor %d", w.At.PID)
	}
	b.WriteByte('\n')
	if q.GetPermission() != nil {
		hidden = writePermission(b, look, q, full)
	}
	if e := q.GetElicitation(); e != nil {
		hidden = writeElicitation(b, e, full)
	}
	return hidden
}

// writeUnseen writes the amount of a question that is omitted, and how to see it.
func writeUnseen(b *strings.Builder, unseen render.Hidden) {
	switch {
	case unseen.Any():
		fmt.Fprintf(b, "    … %s: --full shows all\n", unseen.Count("more "))
	case unseen.Members > 0:
		fmt.Fprintf(b, "    … %s of the input: --full shows all\n", safetext.Count(unseen.Members, "more member"))
	}
}

// cells formats texts on one line each, and counts the omitted characters.
type cells struct {
	full   bool // nothing is omitted
	hidden render.Hidden
}

func (c *cells) line(text string, limit int) string {
	all := output.Whole(text)
	n := utf8.RuneCountInString(all)
	if n <= limit || c.full {
		return all
	}
	c.hidden.Characters += n - limit
	return output.OneLine(text, limit)
}

func writePermission(
	b *strings.Builder, look render.Options, a *supervisorv1.Approval, full bool,
) (hidden render.Hidden) {
	q := a.GetPermission()
	text := cells{full: full}
	asks := "The agent asks" // its title is the agent's text, and may contradict the command below
	if q.GetFromAcphost() {
		asks = "acphost asks"
	}
	if q.GetKind() != "" {
		asks += " (" + text.line(q.GetKind(), 20) + ")"
	}
	title := output.Cell(q.GetTitle())
	if full {
		title = output.Whole(q.GetTitle())
	}
	fmt.Fprintf(b, "  %s: %s\n", asks, title)
	var options strings.Builder
	for _, o := range q.GetOptions() {
		fmt.Fprintf(&options, "  %-20s %s (%s)\n", text.line(o.GetOptionId(), 60), text.line(o.GetName(), 80), text.line(o.GetKind(), 20))
	}
	shown, unseen := render.Question(look, a), render.Unseen(look, a)
	if full {
		shown, unseen = render.Whole(look, a), render.Hidden{}
	}
	hidden = unseen
	unseen.Characters += text.hidden.Characters
	_, below, _ := strings.Cut(shown, "\n") // the title is already shown above
	b.WriteString(below)
	writeUnseen(b, unseen)
	b.WriteString(options.String())
	return hidden
}

func writeElicitation(b *strings.Builder, e *supervisorv1.Elicitation, full bool) (hidden render.Hidden) {
	text := cells{full: full}
	message := strings.TrimSpace(e.GetMessage())
	if full && message != "" {
		fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(safetext.Text(message), "\n", "\n  "))
	} else {
		fmt.Fprintf(b, "  %s\n", text.line(message, safetext.MaxLine))
	}
	if e.GetUrl() != "" {
		fmt.Fprintf(b, "    open %s\n  %-20s once it is open\n", text.line(e.GetUrl(), 2000), "--accept '{}'")
	}
	for _, field := range formFields(&text, e.GetRequestedSchema()) {
		fmt.Fprintf(b, "    %s\n", field)
	}
	writeUnseen(b, text.hidden)
	if e.GetUrl() == "" {
		fmt.Fprintf(b, "  %-20s the form's content\n", "--accept JSON")
	}
	fmt.Fprintf(b, "  %-20s you do not want to say\n", "--decline")
	return text.hidden
}

// formFields describes the fields of a form, one in a line.
func formFields(text *cells, schema string) []string {
	const limit = 64
	var lines []string
	fields := form.Parse([]byte(schema)).Fields
	for i, f := range fields {
		if i == limit && !text.full {
			text.hidden.Lines += len(fields) - limit
			break
		}
		line := text.line(f.Name, 60) + ": " + text.line(f.Want(), 400)
		if !f.Required {
			line += ", optional"
		}
		if f.Title != f.Name {
			line += "; " + text.line(f.Title, 100)
		}
		if f.About != "" {
			line += "; " + text.line(f.About, 100)
		}
		lines = append(lines, line)
	}
	return lines
}

// clock formats a time of the day, with the date if it is not today.
func clock(t time.Time) string {
	t = t.Local()
	if now := time.Now(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly) + " " + output.Zone(t)
	}
	return output.Moment(t) + " " + output.Zone(t)
}

// completeAnswer completes the ids of questions, then the options of a question.
func completeAnswer(ctx context.Context, call *command.Call, all []*reach.Supervisor, args []string) (list []cobra.Completion) {
	waits := questions(ctx, call, all, "")
	for _, w := range waits {
		switch {
		case len(args) == 0:
			list = output.Completions(list, reach.QuestionPrefix(w.Of, approvalsOf(waits)), render.QuestionSubject(w.Of))
		case reach.MatchesQuestion(args[0], w.Of):
			for _, o := range w.Of.GetPermission().GetOptions() {
				list = output.Completions(list, o.GetOptionId(), o.GetName())
			}
		}
	}
	return list
}
