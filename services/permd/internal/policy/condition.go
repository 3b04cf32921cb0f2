package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"

	"github.com/acphost/acphost/internal/secretfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxCost limits the evaluation of a condition, in CEL's units of cost.
const maxCost = 1_000_000

// condition is a compiled "when". Safe for concurrent use.
type condition struct {
	source  string
	program cel.Program
	// ofCommand, ofPaths: the condition reads the action's command, its paths.
	ofCommand, ofPaths bool
}

// environment is created once: it is costly, and does not change.
var environment = sync.OnceValues(newEnvironment)

// newEnvironment returns an environment that contains only the action and functions of text: no clock, no randomness,
// no files.
func newEnvironment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Types(&permissionv1.Action{}),
		cel.Variable("action", cel.ObjectType("acphost.permission.v1.Action")),
		// names_secret(word) reports whether a word of a command names a file that may be a secret.
		cel.Function("names_secret", cel.Overload("names_secret_string", []*cel.Type{cel.StringType}, cel.BoolType,
			cel.UnaryBinding(func(word ref.Val) ref.Val {
				text, _ := word.Value().(string)
				return types.Bool(secretfile.Named(text))
			}))),
		ext.Strings(), ext.Lists(),
	)
}

// conditionError is a mistake in a condition. offset is the number of non-space characters before it; negative: unknown.
type conditionError struct {
	offset  int
	message string
}

func newCondition(env *cel.Env, source string) (*condition, []conditionError) {
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		var errs []conditionError
		for _, e := range issues.Errors() {
			errs = append(errs, conditionError{visibleBefore(source, e.Location.Line(), e.Location.Column()), e.Message})
		}
		return nil, errs
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, []conditionError{{0, fmt.Sprintf("expected a condition that is true or false, got %s", ast.OutputType())}}
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, []conditionError{{-1, err.Error()}}
	}
	c := &condition{source: source, program: program}
	c.looksAt(celast.NavigateAST(ast.NativeRep()))
	return c, nil
}

// looksAt determines which fields the condition reads. A condition that passes on the whole action may read every field.
func (c *condition) looksAt(e celast.NavigableExpr) {
	switch {
	case e.Kind() == celast.SelectKind && isAction(e.AsSelect().Operand()):
		c.ofCommand = c.ofCommand || e.AsSelect().FieldName() == "command"
		c.ofPaths = c.ofPaths || e.AsSelect().FieldName() == "paths"
		return
	case isAction(e):
		c.ofCommand, c.ofPaths = true, true
	}
	for _, child := range e.Children() {
		c.looksAt(child)
	}
}

func isAction(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == "action" }

// forbids reports how certain it is that the condition of a deny or ask rule holds. The result is maybe if the
// evaluation fails, or if the condition is false but reads a command or paths that are not fully known, because it
// might be true for the full action. A condition that reads neither is evaluated on the known fields. With an error,
// the result is maybe.
func (c *condition) forbids(a *action) (match, error) {
	held, err := c.holds(a.Action)
	switch {
	case err != nil:
		return maybe, err
	case held:
		return yes, nil
	case c.ofCommand && a.unclear, c.ofPaths && (a.vague || a.unclear):
		return maybe, nil
	}
	return no, nil
}

// holds evaluates the condition.
func (c *condition) holds(a *permissionv1.Action) (bool, error) {
	if a == nil {
		a = &permissionv1.Action{}
	}
	value, _, err := c.program.Eval(map[string]any{"action": a})
	if err != nil {
		return false, err
	}
	held, ok := value.Value().(bool)
	if !ok {
		return false, errors.New("the condition is neither true nor false")
	}
	return held, nil
}

// visibleBefore counts the non-space characters before a position in text; line is from 1, column from 0.
func visibleBefore(text string, line, column int) int {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return -1
	}
	last := []rune(lines[line-1])
	before := append(lines[:line-1], string(last[:min(max(column, 0), len(last))]))
	return utf8.RuneCountInString(strings.Join(strings.Fields(strings.Join(before, " ")), ""))
}

// placeIn converts an offset in a scalar of a YAML file that begins at line and column, both from 1, to a position.
// YAML changes only the white space of a plain or block scalar, so the offset counts only non-space characters.
func placeIn(data []byte, line, column, offset int) (int, int) {
	lines := strings.Split(string(data), "\n")
	if offset < 0 || line < 1 || line > len(lines) {
		return line, column
	}
	atLine, atColumn := line-1, column-1
	if first := []rune(lines[atLine]); atColumn < len(first) {
		switch first[atColumn] {
		case '|', '>':
			atLine, atColumn = atLine+1, 0
		case '"', '\'':
			atColumn++
		}
	}
	for ; atLine < len(lines); atLine, atColumn = atLine+1, 0 {
		runes := []rune(lines[atLine])
		for i := atColumn; i < len(runes); i++ {
			if unicode.IsSpace(runes[i]) {
				continue
			}
			if offset == 0 {
				return atLine + 1, i + 1
			}
			offset--
		}
	}
	return line, column
}
