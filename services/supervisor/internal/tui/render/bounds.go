package render

const (
	// maxKept limits the tool calls, questions and similar items whose state is kept.
	maxKept = 1000
	// maxCode limits the bytes of one line of code, a diff or output that are shown.
	maxCode = 4 << 10
	// maxText limits the bytes of a text, such as a description or a question.
	maxText = 64 << 10
)
