package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxCost bounds the evaluation of one condition, in CEL's units of cost.
const maxCost = 1_000_000

// condition is a compiled "when". Safe for concurrent use.
type condition struct{ program cel.Program }

// newEnvironment knows the action and nothing else: no clock, no chance, nothing outside.
func newEnvironment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Types(&permissionv1.Action{}),
		cel.Variable("action", cel.ObjectType("acphost.permission.v1.Action")),
		ext.Strings(), ext.Lists(),
	)
}

// conditionError is a mistake in a condition. offset counts the characters before it that are no white space; negative:
// it has no place.
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
	return &condition{program: program}, nil
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

// visibleBefore counts the characters that are no white space before a place in text; line is from 1, column from 0.
func visibleBefore(text string, line, column int) int {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return -1
	}
	n := 0
	for _, before := range lines[:line-1] {
		n += visible(before)
	}
	last := []rune(lines[line-1])
	return n + visible(string(last[:min(max(column, 0), len(last))]))
}

func visible(s string) int {
	n := 0
	for _, r := range s {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// placeIn finds a place inside a scalar of a YAML file that begins at line and column, both from 1. YAML changes only
// the white space of a plain or block scalar, so what can be seen is counted.
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
